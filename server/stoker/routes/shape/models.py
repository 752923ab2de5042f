"""`/models`: Ollama's list and OpenAI's in one object."""

from collections.abc import Sequence

from stoker.core.info import ModelInfo
from stoker.routes.body import Json


def models(info: ModelInfo, aliases: Sequence[str], tags: Sequence[str], context: int, created: int) -> Json:
    """`context` is one slot's; `created` the current Unix time, as upstream has it."""
    described = {**_described(info, aliases, context, created), "tags": list(tags)}
    return {"models": [_listed(aliases[0])], "object": "list", "data": [described]}


def _listed(name: str) -> Json:
    return {
        "name": name,
        "model": name,
        "modified_at": "",
        "size": "",
        "digest": "",
        "type": "model",
        "description": "",
        "tags": [""],
        "capabilities": ["completion"],
        "parameters": "",
        "details": {
            "parent_model": "",
            "format": "gguf",
            "family": "",
            "families": [""],
            "parameter_size": "",
            "quantization_level": "",
        },
    }


def _described(info: ModelInfo, aliases: Sequence[str], context: int, created: int) -> Json:
    return {
        "id": aliases[0],
        "aliases": list(aliases),
        "tags": [],
        "object": "model",
        "created": created,
        "owned_by": "llamacpp",
        "meta": {
            "vocab_type": True,  # upstream prints its enumeration as a boolean
            "n_vocab": info.vocab,
            "n_ctx": context,
            "n_ctx_train": info.context,
            "n_embd": info.width,
            "n_params": info.parameters,
            "size": info.size,
            "ftype": info.ftype,
        },
    }
