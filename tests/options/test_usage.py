import shutil
import subprocess
from pathlib import Path

import pytest

from stoker import cli, inert
from stoker.options.usage import completion_script, help_text, list_text
from stoker.settings import options


def test_the_help_has_one_line_for_each_honoured_option_under_its_section() -> None:
    lines = help_text("stoker-server", options(), 7).splitlines()
    for option in options():
        found = [line for line in lines if line.startswith(f"  {', '.join((*option.spellings, *option.off))} ")]
        assert len(found) == 1, option.name
        assert option.help in found[0]
    titles = [line for line in lines if line and not line.startswith(" ")]
    assert len(titles) == len({o.section for o in options()}) + 2
    assert lines[-1].startswith("7 more options of llama-server")


def test_a_line_names_the_default_and_the_variable() -> None:
    lines = help_text("x", options(), 0).splitlines()
    port = next(line for line in lines if "--port" in line)
    assert port.endswith("0: any free one (default: 8080) [LLAMA_ARG_PORT]")
    slots = next(line for line in lines if "--no-slots" in line)
    assert "(default: on)" in slots
    metrics = next(line for line in lines if "--metrics" in line)
    assert "default" not in metrics


def test_the_list_of_the_others_has_a_line_for_each() -> None:
    lines = list_text("Others", inert.descriptions()).splitlines()
    assert lines[0] == "Others"
    assert len(lines) == 1 + len(inert.options())


def completed(word: str, before: str) -> list[str]:
    """What bash offers for a word, the script sourced."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    script = completion_script(("stoker-server",), cli.options())
    line = f"COMP_WORDS=(stoker-server {before} {word}); COMP_CWORD=2"
    call = line + "; _stoker_server; printf '%s\\n' \"${COMPREPLY[@]}\""
    ran = subprocess.run([bash, "-c", f"{script}\n{call}"], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return ran.stdout.split()


def test_bash_completes_spellings() -> None:
    assert completed("--no-cache-p", "--metrics") == ["--no-cache-prompt"]
    assert set(completed("--thr", "--metrics")) >= {"--threads", "--threads-http"}


def test_bash_completes_files_after_an_option_that_takes_a_value(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    assert completed(f"{tmp_path}/mo", "-m") == [f"{tmp_path}/model.gguf"]
