"""Makes recordings: starts a llama-server (any build, any path), sends it the cases and writes down what it answers.

    python compat/record.py --server build/bin/llama-server --model MODEL.gguf --into recordings [--profile base …]

Each profile gets a server of its own with the profile's command line, and its cases in their order. The files have the
form that `compat/check.py` reads (`--recordings`), and name no path of the machine that they were made on.
"""

import argparse
import asyncio
import base64
import json
import re
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

if not __package__:  # run as a file: the repository's root is not on the path yet
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compat import check, library
from compat.answer import Answer, Json
from compat.library import Case
from compat.ports import free_port
from compat.shape import HEADERS

LONG_TEXT, LONG_LIST = 200, 16
"""Characters of a repetition, and numbers of a vector, from which on they are shortened."""

KEPT_PAGE = 8192
"""Bytes; of a longer text that is no answer's data (a page), only the length is kept."""


def recorded(answer: Answer, hidden: Mapping[str, str]) -> dict[str, Any]:
    """The content of a recording's file; `hidden` maps texts of this machine to what stands for them."""
    names = {name: "-".join(word.capitalize() for word in name.split("-")) for name in HEADERS}
    headers = {shown: answer.headers[name] for name, shown in names.items() if name in answer.headers}
    told: dict[str, Any] = {"status": answer.status, "headers": headers}
    if answer.form == "frames":
        told["frames"] = [
            {**({"event": frame.event} if frame.event else {}), "data": packed(frame.data, hidden)}
            for frame in answer.frames
        ]
    elif answer.form == "json":
        told["body"] = packed(answer.body, hidden)
    elif len(answer.text) > KEPT_PAGE:
        told["text_omitted"] = len(answer.text)
    else:
        told["text"] = packed(answer.text, hidden)
    return told


def packed(value: Json, hidden: Mapping[str, str]) -> Json:
    """The opposite of `answer.unpacked`: repetitions and vectors of float32 are shortened."""
    if isinstance(value, dict):
        return {key: packed(item, hidden) for key, item in value.items()}
    if isinstance(value, list):
        return _vector(value) or [packed(item, hidden) for item in value]
    return _text(value, hidden) if isinstance(value, str) else value


def _vector(values: list[Json]) -> Json:
    floats = [one for one in values if isinstance(one, float)]
    if len(floats) < max(len(values), LONG_LIST):
        return None
    raw = struct.pack(f"<{len(floats)}f", *floats)
    if list(struct.unpack(f"<{len(floats)}f", raw)) != floats:
        return None
    return {"$f32": base64.b64encode(raw).decode()}


def _text(text: str, hidden: Mapping[str, str]) -> Json:
    for here, name in hidden.items():
        text = text.replace(here, name)
    found = re.fullmatch(r"(.{1,32}?)\1{9,}", text, re.DOTALL) if len(text) >= LONG_TEXT else None
    return {"$repeat": found[1], "$times": len(text) // len(found[1])} if found else text


def written(told: Mapping[str, Any]) -> str:
    """A recording as text: a line for each part, and for each frame."""
    parts = [f" {json.dumps(key)}: {_lines(value) if key == 'frames' else _line(value)}" for key, value in told.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(frames: Sequence[Json]) -> str:
    return "[\n" + ",\n".join(f"  {_line(frame)}" for frame in frames) + "\n ]"


def _line(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


@contextmanager
def serving(command: Sequence[str], log: Path, seconds: float) -> Iterator[str]:
    """A server's URL once its /health says that it is ready; it is ended afterwards. SystemExit if it never is."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    with log.open("wb") as out:
        words = [*command, "--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(words, stdout=out, stderr=out)
    try:
        _await_ready(process, url, seconds, log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_ready(process: subprocess.Popen[bytes], url: str, seconds: float, log: Path) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"{url}/health", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    said = log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
    raise SystemExit("\n".join([f"no server within {seconds:.0f} s; it said:", *said]))


def record(url: str, case: Case, into: Path, hidden: Mapping[str, str]) -> Path:
    """Sends one case and writes its file."""
    with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
        answer = asyncio.run(check.send(client, case))
    file = into / library.recording_of(case.profile, case.number, case.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(written(recorded(answer, {**hidden, url: "BASE"})), encoding="utf-8")
    return file


def record_profile(name: str, args: argparse.Namespace) -> int:
    """The number of recordings that were made."""
    chosen = [case for case in library.cases(name, recordings=None) if not args.case or case.name in args.case]
    with tempfile.TemporaryDirectory(prefix="record-") as place:
        names = {"{MODEL}": str(args.model), "{TMP}": place}
        words = ["-m", "{MODEL}", *library.profile(name).server_args]
        for mark, here in names.items():
            words = [word.replace(mark, here) for word in words]
        hidden = {str(args.model): "MODEL.gguf", args.model.name: "MODEL.gguf", place: "TMP"}
        log = Path(place) / "log"
        with serving([str(args.server), *words], log, args.start_seconds) as url:
            for case in chosen:
                print(record(url, case, args.into, hidden))
    return len(chosen)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="compat/record.py", description=(__doc__ or "").partition("\n")[0])
    made.add_argument("--server", required=True, type=Path, help="llama-server's executable")
    made.add_argument("--model", required=True, type=Path, help="GGUF file")
    made.add_argument("--into", required=True, type=Path, help="folder of the new recordings")
    made.add_argument("--profile", action="append", choices=library.PROFILES, help="may be repeated (default: all)")
    made.add_argument("--case", action="append", metavar="NAME", help="only this case (may be repeated)")
    made.add_argument("--start-seconds", type=float, default=120, help="time to get ready (default: %(default)s)")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    count = sum(record_profile(name, args) for name in args.profile or library.PROFILES)
    print(f"{count} recordings in {args.into}")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
