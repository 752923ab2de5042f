"""`grammar`, `json_schema`, `response_format` and the fields of lazy grammars: what the answer must look like."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from stoker.core.errors import InvalidRequest, ServerFault
from stoker.core.request import Grammar, Trigger, TriggerKind
from stoker.routes.body import members
from stoker.routes.schema.fields import (
    field_error,
    lenient,
    lenient_int,
    read_array,
    read_bool,
    read_string,
    type_error,
)
from stoker.routes.service import Service, Tokenizer
from stoker.text.rules import GrammarError
from stoker.text.schema import REFUSED, Part, of_envelope, of_schema

Body = Mapping[str, object]

NO_TRIGGERS = "Error: no triggers set for lazy grammar!"


def read_grammar(body: Body, service: Service) -> Grammar:
    """Of a native body. A schema counts only where no key `grammar` is; with neither, the server's own holds.

    Raises InvalidRequest for wrong types and hopeless schemas. Whether the grammar can be followed is found out
    when it is compiled.
    """
    text = read_string(body, "grammar", service.grammar)
    if "grammar" not in body and (schema := body.get("json_schema")) is not None:
        text = schema_text(schema)
    lazy = read_bool(body, "grammar_lazy", False)
    triggers = tuple(_triggers(body, read_preserved(body, service.tokenizer), service.tokenizer))
    if lazy and not triggers:
        raise field_error("grammar_triggers", NO_TRIGGERS)
    return Grammar(text, lazy, triggers)


def schema_text(schema: object) -> str:
    """The grammar of a JSON schema that a client sent. An empty one means an object, as upstream."""
    if not isinstance(schema, dict | bool):
        raise field_error("json_schema", type_error("object", schema))
    told: object = cast("object", schema)
    try:
        return of_schema({"type": "object"} if told == {} else told)
    except GrammarError as error:
        raise InvalidRequest(f"{REFUSED}{error}") from None


def read_preserved(body: Body, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Tokens that show in the text although they are control tokens; texts that are no single token are dropped."""
    words = read_array(body, "preserved_tokens") or []
    spelt = [_ids(word, tokenizer) for word in words if isinstance(word, str)]
    return tuple(sorted({ids[0] for ids in spelt if len(ids) == 1}))


def chat_grammar(body: Body) -> Body:
    """The native fields that a chat's wishes amount to.

    `json_object` without a schema constrains nothing, as recorded; `json_schema` without one asks for an object.
    """
    schema: object = body.get("json_schema")
    if schema is not None and body.get("grammar"):
        raise ServerFault("Cannot use both json_schema and grammar")
    form = members(body.get("response_format"))
    kind = lenient(form, "type", "")
    if kind == "json_object":
        schema = form.get("schema") or schema
    elif kind == "json_schema":
        schema = members(form.get("json_schema")).get("schema") or schema or dict[str, object]()
    elif kind not in ("", "text"):
        raise InvalidRequest(f'response_format type must be one of "text" or "json_object", but got: {kind}')
    return {} if schema is None else {"grammar": schema_text(schema)}


def envelope_grammar(begin: str, schema: Mapping[str, object], end: str, tokenizer: Tokenizer) -> str:
    """A value of the schema between two texts, whose control tokens are meant as such."""
    try:
        return of_envelope(_parts(begin, tokenizer), schema, _parts(end, tokenizer))
    except GrammarError as error:
        raise InvalidRequest(f"{REFUSED}{error}") from None


def _parts(text: str, tokenizer: Tokenizer) -> Sequence[Part]:
    parts: list[Part] = []
    plain = b""
    for id in tokenizer.encode(text, add_special=False, parse_special=True):
        shown = tokenizer.piece(id, special=False)
        plain += shown
        if not shown:
            parts += [plain.decode("utf-8", "replace"), id] if plain else [id]
            plain = b""
    return [*parts, plain.decode("utf-8", "replace")] if plain else parts


def _triggers(body: Body, preserved: Sequence[int], tokenizer: Tokenizer) -> Iterator[Trigger]:
    """Words and tokens. Patterns come from the formats of tool calls only: here they could hold up the whole server."""
    for entry in read_array(body, "grammar_triggers") or []:
        given = members(entry)
        kind, text = lenient_int(given, "type", TriggerKind.TOKEN), lenient(given, "value", "")
        if kind == TriggerKind.TOKEN:
            yield Trigger(TriggerKind.TOKEN, text, lenient_int(given, "token", -1))
        elif kind == TriggerKind.WORD and text:
            ids = _ids(text, tokenizer)
            if len(ids) == 1 and ids[0] not in preserved:
                raise field_error(
                    "grammar_triggers", f"Grammar trigger word should be marked as preserved token: {text}"
                )
            yield Trigger(TriggerKind.TOKEN, text, ids[0]) if len(ids) == 1 else Trigger(TriggerKind.WORD, text)
        else:
            raise field_error("grammar_triggers", "a trigger is a token (type 0) or a word (type 1) here")


def _ids(text: str, tokenizer: Tokenizer) -> list[int]:
    return tokenizer.encode(text, add_special=False, parse_special=True)
