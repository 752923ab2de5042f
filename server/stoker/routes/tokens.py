"""/tokenize and /detokenize."""

from collections.abc import Mapping
from typing import cast

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.core.errors import InvalidRequest, ServerFault
from stoker.routes.body import members, parse
from stoker.routes.offload import off_loop
from stoker.routes.respond import json_response
from stoker.routes.schema.fields import lenient, type_error
from stoker.routes.schema.prompts import encode_mixed
from stoker.routes.service import State, Tokenizer

Body = Mapping[str, object]


def router(state: State) -> APIRouter:
    routes = APIRouter()

    @routes.post("/tokenize")
    async def tokenize(request: Request) -> Response:
        raw = await request.body()
        body, tokenizer = members(parse(raw)), (await state.awake()).tokenizer
        return json_response({"tokens": await off_loop(len(raw), lambda: _tokenize(body, tokenizer))})

    @routes.post("/detokenize")
    async def detokenize(request: Request) -> Response:
        raw = await request.body()
        body, tokenizer = members(parse(raw)), (await state.awake()).tokenizer
        return json_response({"content": await off_loop(len(raw), lambda: _detokenize(body, tokenizer))})

    return routes


def _tokenize(body: Body, tokenizer: Tokenizer) -> list[object]:
    ids = encode_mixed(
        _parts(body.get("content")),
        tokenizer,
        add_special=lenient(body, "add_special", False),
        parse_special=lenient(body, "parse_special", True),
    )
    if lenient(body, "with_pieces", False):
        return [{"id": id, "piece": _piece(_known(id, tokenizer), tokenizer)} for id in ids]
    return list(ids)


def _detokenize(body: Body, tokenizer: Tokenizer) -> str:
    tokens = body.get("tokens")
    if tokens is None:
        return ""
    if not isinstance(tokens, list):
        raise ServerFault(type_error("array", tokens))
    ids = [_known(_id(token), tokenizer) for token in cast("list[object]", tokens)]
    return tokenizer.decode(ids, special=True).decode("utf-8", "replace")


def _parts(content: object) -> list[object]:
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        raise ServerFault(type_error("string", content))
    return [part if isinstance(part, str) else _id(part) for part in cast("list[object]", content)]


def _id(value: object) -> int:
    if not isinstance(value, int | float):
        raise ServerFault(type_error("number", value))
    return int(value)


def _known(id: int, tokenizer: Tokenizer) -> int:
    if not 0 <= id < tokenizer.vocab:
        raise InvalidRequest(f"Invalid token: {id} is not in the vocabulary of {tokenizer.vocab}")
    return id


def _piece(id: int, tokenizer: Tokenizer) -> str | list[int]:
    """Text, or its bytes where they are not whole characters."""
    piece = tokenizer.piece(id, special=True)
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)
