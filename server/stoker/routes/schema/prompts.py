"""`prompt` in all its forms: text, token ids, a mix of both, an object, or an array of these."""

from collections.abc import Mapping
from typing import cast

from stoker.core.errors import InvalidRequest
from stoker.routes.schema.fields import type_name
from stoker.routes.service import Tokenizer

Ids = tuple[int, ...]

WRONG_FORM = (
    '"prompt" elements must be a string, a list of tokens, a JSON object containing a prompt string, '
    "or a list of mixed strings & tokens."
)


def read_prompts(body: object, tokenizer: Tokenizer) -> list[Ids]:
    """One entry a prompt, in order. Raises InvalidRequest with llama-server's words."""
    if not isinstance(body, dict):
        raise InvalidRequest(f"[json.exception.type_error.304] cannot use at() with {type_name(body)}")
    members = cast("Mapping[str, object]", body)
    if "prompt" not in members:
        raise InvalidRequest("[json.exception.out_of_range.403] key 'prompt' not found")
    prompts = [_encode(prompt, tokenizer) for prompt in _split(members["prompt"])]
    if not prompts:
        raise InvalidRequest('"prompt" must not be empty')
    return prompts


def encode_mixed(parts: list[object], tokenizer: Tokenizer, *, add_special: bool, parse_special: bool) -> list[int]:
    """Texts and ids in a row; only a text that comes first gets the special tokens of a beginning."""
    ids: list[int] = []
    for index, part in enumerate(parts):
        if isinstance(part, str):
            ids += tokenizer.encode(part, add_special=add_special and index == 0, parse_special=parse_special)
        else:
            ids.append(int(cast("float", part)))
    return ids


def _split(prompt: object) -> list[object]:
    """A list of texts only is several prompts; with a number in it, it is one."""
    if isinstance(prompt, list):
        parts = cast("list[object]", prompt)
        return [parts] if _is_sequence(parts) and any(_is_id(part) for part in parts) else parts
    return [prompt]


def _encode(prompt: object, tokenizer: Tokenizer) -> Ids:
    if isinstance(prompt, dict):
        prompt = _from_object(cast("Mapping[str, object]", prompt))
    if isinstance(prompt, str):
        return tuple(tokenizer.encode(prompt, add_special=True, parse_special=True))
    if not isinstance(prompt, list) or not _is_sequence(parts := cast("list[object]", prompt)):
        raise InvalidRequest(WRONG_FORM)
    if any(_is_id(part) and not 0 <= cast("float", part) < tokenizer.vocab for part in parts):
        raise InvalidRequest("Prompt contains invalid tokens")
    return tuple(encode_mixed(parts, tokenizer, add_special=True, parse_special=True))


def _from_object(prompt: Mapping[str, object]) -> object:
    if "prompt_string" not in prompt:
        raise InvalidRequest(WRONG_FORM)
    if prompt.get("multimodal_data"):
        raise InvalidRequest("Multimodal data provided, but model does not support multimodal requests.")
    return prompt["prompt_string"]


def _is_id(part: object) -> bool:
    return isinstance(part, int) and not isinstance(part, bool)


def _is_sequence(parts: list[object]) -> bool:
    return all(isinstance(part, str) or _is_id(part) for part in parts)
