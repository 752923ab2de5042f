"""`stoker convert`: a GGUF file, or the first layers of a model, as a directory that mlx_lm loads.

With `--mtp`: the MTP heads of an original Qwen3.5 checkpoint, which conversions drop, as a drafter for any
conversion of it.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tqdm import tqdm

from stoker.core.errors import StartError
from stoker.core.info import TokenizerSource
from stoker.text import gguf_tokenizer, tokenizer

HELP = "write a model as an MLX directory (weights, config.json, tokenizer.json, chat template)"
DTYPES = ("float32", "packed")
COPIED = ("tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "chat_template*", "tokenizer.model")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", "--model", required=True, metavar="PATH", help="a .gguf file or a model directory")
    parser.add_argument("--out", required=True, metavar="DIR", type=Path, help="a directory that is empty or new")
    parser.add_argument("--layers", type=int, metavar="N", help="keep the first N layers only (for draft models)")
    parser.add_argument(
        "--mtp",
        action="store_true",
        help="write the MTP heads of a Hugging Face checkpoint, as stored, as a drafter for --draft-model",
    )
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        default="float32",
        help="float32 (default) or packed: as stored, with the bits of each layer in config.json",
    )


def run(arguments: argparse.Namespace, _environ: Mapping[str, str] = MappingProxyType({})) -> int:
    """Exit status. Raises StartError with one line if the model cannot be read or the directory not written."""
    if arguments.mtp:
        if arguments.layers is not None:
            raise StartError("--mtp writes the heads only: leave --layers out")
        convert_mtp(arguments.model, arguments.out)
    else:
        convert(arguments.model, arguments.out, layers=arguments.layers, packed=arguments.dtype == "packed")
    print(f"wrote {arguments.out}")
    return 0


def convert(model: str, out: Path, *, layers: int | None = None, packed: bool = False) -> None:
    """Raises StartError with one line."""
    # MLX is imported here, so that the command line's help does without it.
    from mlx_lm.utils import save_config, save_model

    from stoker.models.load import load

    _require_empty(out)
    with tqdm(total=100, desc="converting", unit="%", file=sys.stderr, disable=None) as bar:
        loaded = load(model, layers=layers, packed=packed, progress=lambda done: _move(bar, int(50 * done)))
        try:
            out.mkdir(parents=True, exist_ok=True)
            save_model(out, loaded.model)
            _move(bar, 90)
            save_config(dict(loaded.config), out / "config.json")
            _write_tokenizer(loaded.tokenizer, loaded.template, out)
        except OSError as error:
            raise StartError(f"cannot write {out}: {error.strerror or error}") from error
        _move(bar, 100)


def convert_mtp(model: str, out: Path) -> None:
    """Raises StartError with one line."""
    import mlx.core as mx

    from stoker.models.nets.qwen3_5_mtp import sidecar

    _require_empty(out)
    place = Path(model).expanduser()
    config, weights = sidecar(place)
    try:
        out.mkdir(parents=True, exist_ok=True)
        mx.save_safetensors(str(out / "model.safetensors"), weights, {"format": "mlx"})
        _write_json(out / "config.json", config)
        _copy_tokenizer(place, out)
    except OSError as error:
        raise StartError(f"cannot write {out}: {error.strerror or error}") from error


def _require_empty(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StartError(f"{out} exists and is not an empty directory")


def _move(bar: "tqdm[Any]", percent: int) -> None:
    bar.update(percent - bar.n)


def _write_tokenizer(source: TokenizerSource, template: str | None, out: Path) -> None:
    ours = tokenizer.from_source(source)
    if isinstance(source, Path):
        _copy_tokenizer(source, out)
    else:
        gguf_tokenizer.build(gguf_tokenizer.read(source)).save(str(out / "tokenizer.json"))
        _write_json(out / "tokenizer_config.json", _tokenizer_config(ours, template))
        if template is not None:
            (out / "chat_template.jinja").write_text(template, "utf-8")
    _write_json(out / "generation_config.json", _generation_config(ours))


def _copy_tokenizer(source: Path, out: Path) -> None:
    for pattern in COPIED:
        for file in source.glob(pattern):
            shutil.copy(file, out / file.name)


def _tokenizer_config(ours: tokenizer.Tokenizer, template: str | None) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "add_bos_token": ours.adds_bos,
    }
    if ours.bos is not None:
        settings["bos_token"] = ours.bos_text
    if ours.eos is not None:
        settings["eos_token"] = ours.eos_text
    if template is not None:
        settings["chat_template"] = template
    return settings


def _generation_config(ours: tokenizer.Tokenizer) -> dict[str, Any]:
    settings: dict[str, Any] = {"eos_token_id": sorted(ours.end_ids)}
    if ours.bos is not None:
        settings["bos_token_id"] = ours.bos
    return settings


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
