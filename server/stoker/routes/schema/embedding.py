"""Bodies of the embedding routes."""

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.core.errors import InvalidRequest, ServerFault
from stoker.routes.schema.fields import type_error
from stoker.routes.schema.job import Ids
from stoker.routes.schema.prompts import read_prompts
from stoker.routes.service import Service

Body = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class EmbeddingJob:
    prompts: tuple[Ids, ...]
    normalize: int
    """-1 none, 0 largest to 32760, 2 Euclidean, else the norm of that power."""
    base64: bool
    openai: bool
    """False: llama-server's own shape, also asked for on OpenAI's route by `content`."""
    model: object


def read_embedding(body: Body, service: Service, *, openai: bool) -> EmbeddingJob:
    """Raises InvalidRequest with llama-server's words."""
    name = next((name for name in ("input", "content") if name in body), None)
    if name is None:
        raise InvalidRequest('"input" or "content" must be provided')
    encoding = body.get("encoding_format", "float")
    if not isinstance(encoding, str):
        raise ServerFault(type_error("string", encoding))
    if encoding not in ("float", "base64"):
        raise InvalidRequest("The format to return the embeddings in. Can be either float or base64")
    prompts = tuple(read_prompts({"prompt": body[name]}, service.tokenizer))
    if not all(prompts):
        raise InvalidRequest("Input content cannot be empty")
    normalize = body.get("embd_normalize", service.defaults.embd_normalize)
    if not isinstance(normalize, int | float):
        raise ServerFault(type_error("number", normalize))
    model = body.get("model")
    shown = service.model if model is None else model
    return EmbeddingJob(prompts, int(normalize), encoding == "base64", openai and name == "input", shown)
