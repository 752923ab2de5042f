"""Routes of later issues that llama-server answers with "switched off"."""

from fastapi import APIRouter
from starlette.responses import Response

from stoker.core.errors import NotSupported
from stoker.routes.info import switched_off
from stoker.routes.service import State


def router(state: State) -> APIRouter:
    routes = APIRouter()

    @routes.post("/embedding")
    @routes.post("/embeddings")
    @routes.post("/v1/embeddings")
    async def embeddings() -> Response:
        raise switched_off("embeddings", "--embeddings")

    @routes.post("/rerank")
    @routes.post("/reranking")
    @routes.post("/v1/rerank")
    @routes.post("/v1/reranking")
    async def rerank() -> Response:
        raise switched_off("reranking", "--reranking")

    @routes.post("/infill")
    async def infill() -> Response:
        missing = state.ready().fim_missing
        if not missing:
            raise NotSupported("Infill is not built yet")
        named = "".join(f"{name} token is missing. " for name in missing)
        raise NotSupported(f"Infill is not supported by this model: {named}")

    return routes
