"""/infill: what stands before and behind a gap, and around it, becomes a prompt as code models learned it.

    [repository]myproject [file]name text … [file]filename [prefix]before prompt [suffix]behind [middle]

The order is llama-server's (the repository-level pattern of Qwen2.5-Coder, arXiv 2409.12186), as are its shares:
three quarters of a batch for what comes before, a quarter for what comes behind, and what the context has left
beyond a batch for other files, whose end counts most.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from stoker.core.errors import InvalidRequest, NotSupported, ServerFault
from stoker.routes.body import members
from stoker.routes.schema.fields import lenient, type_error
from stoker.routes.schema.job import Ids
from stoker.routes.schema.prompts import encode_mixed
from stoker.routes.service import Service, Tokenizer

Body = Mapping[str, object]

SNIPPET = "\n\n--- snippet ---\n\n"
"""Before another file's text, where the vocabulary has no token for it."""
MARKS = 2
"""Places of the batch that the suffix's and the middle's tokens take."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of another file."""

    text: str
    name: str


def read_infill(body: Body, service: Service) -> Ids:
    """The prompt. NotSupported for a model without the tokens, else InvalidRequest or ServerFault, as upstream."""
    require_tokens(service.tokenizer)
    chunks = read_chunks(body.get("input_extra"))
    gap = Gap(
        _side(body, "input_prefix", service.tokenizer),
        _side(body, "input_suffix", service.tokenizer),
        service.tokenizer.encode(lenient(body, "prompt", ""), add_special=False, parse_special=True),
    )
    return fill(gap, chunks, service)


def require_tokens(tokenizer: Tokenizer) -> None:
    if missing := tokenizer.fim.missing:
        named = "".join(f"{name} token is missing. " for name in missing)
        raise NotSupported(f"Infill is not supported by this model: {named}")


def read_chunks(extra: object) -> list[Chunk]:
    if extra is None:
        return []
    if not isinstance(extra, list):
        raise InvalidRequest('"input_extra" must be an array of {"filename": string, "text": string}')
    return [_chunk(item) for item in cast("list[object]", extra)]


@dataclass(frozen=True, slots=True)
class Gap:
    """Token ids before, behind and at the beginning of what is to be generated."""

    before: list[int]
    behind: list[int]
    prompt: list[int]


def fill(gap: Gap, chunks: list[Chunk], service: Service) -> Ids:
    """The whole prompt, trimmed to the batch and the context."""
    tokenizer, fim = service.tokenizer, service.tokenizer.fim
    assert fim.prefix is not None
    assert fim.suffix is not None
    assert fim.middle is not None
    batch = min(service.batch, service.context)
    before = [fim.prefix, *_last(gap.before, 3 * (batch // 4)), *gap.prompt]
    behind = [fim.suffix, *gap.behind[: max(batch // 4 - MARKS - len(gap.prompt), 0)]]
    first, second = (behind, before) if service.defaults.spm_infill else (before, behind)
    begin = tokenizer.encode("", add_special=True, parse_special=False) if tokenizer.adds_bos else []
    around = _last(_around(chunks, tokenizer), max(service.context - batch - 2 * service.limits.predict, 0))
    return (*around, *begin, *first, *second, fim.middle)


def _around(chunks: list[Chunk], tokenizer: Tokenizer) -> list[int]:
    """The other files, and the name of this one."""
    fim = tokenizer.fim
    ids: list[int] = []
    if fim.repository is not None:
        ids += [fim.repository, *_plain("myproject\n", tokenizer)]
    for chunk in chunks:
        lead = _plain(SNIPPET, tokenizer) if fim.file is None else [fim.file, *_plain(f"{chunk.name}\n", tokenizer)]
        ids += [*lead, *_plain(chunk.text, tokenizer)]
    if fim.file is not None:
        ids += [fim.file, *_plain("filename\n", tokenizer)]
    return ids


def _side(body: Body, name: str, tokenizer: Tokenizer) -> list[int]:
    """A text, or texts and ids in a row."""
    if name not in body:
        raise ServerFault(f"[json.exception.out_of_range.403] key '{name}' not found")
    value = body[name]
    parts = cast("list[object]", value) if isinstance(value, list) else [value]
    for part in parts:
        if not isinstance(part, str | int) or isinstance(part, bool):
            raise ServerFault(type_error("string" if part is value else "number", part))
        if isinstance(part, int) and not 0 <= part < tokenizer.vocab:
            raise InvalidRequest("Prompt contains invalid tokens")
    return encode_mixed(parts, tokenizer, add_special=False, parse_special=False)


def _chunk(item: object) -> Chunk:
    fields = members(item)
    text, name = fields.get("text"), fields.get("filename", "tmp")
    if not isinstance(text, str):
        raise InvalidRequest('extra_context chunk must contain a "text" field with a string value')
    if not isinstance(name, str):
        raise InvalidRequest('extra_context chunk\'s "filename" field must be a string')
    return Chunk(text, name)


def _plain(text: str, tokenizer: Tokenizer) -> list[int]:
    return tokenizer.encode(text, add_special=False, parse_special=False)


def _last(ids: list[int], count: int) -> list[int]:
    return ids[max(len(ids) - count, 0) :]
