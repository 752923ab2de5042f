"""The tools of a chat body, and what the client says of their use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from stoker.core.errors import InvalidRequest, ServerFault
from stoker.core.request import Grammar, Trigger, TriggerKind
from stoker.routes.body import members
from stoker.routes.schema.fields import lenient, type_name
from stoker.routes.schema.grammar import envelope_grammar
from stoker.routes.schema.native import not_built
from stoker.routes.service import Service
from stoker.text.caps import Message

Body = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Offer:
    """What the model may call; nothing where the client chose `none`."""

    tools: list[Message] = field(default_factory=list[Message])
    required: bool = False
    parallel: bool = True

    @property
    def schemas(self) -> dict[str, Mapping[str, object]]:
        """Parameter schemas by the tool's name."""
        functions = [members(tool.get("function")) for tool in self.tools]
        return {lenient(one, "name", ""): members(one.get("parameters")) for one in functions if one.get("name")}


@dataclass(frozen=True, slots=True)
class Prompt:
    text: str
    inside: bool = False
    """True: it stops inside a thought."""


def read_offer(body: Body, service: Service) -> Offer:
    """Raises what llama-server answers."""
    tools, choice = _tools(body), lenient(body, "tool_choice", "auto")
    if not service.defaults.jinja:
        _refuse(body, tools)
    if choice not in ("auto", "none", "required"):
        raise InvalidRequest(f"Invalid tool_choice: {choice}")
    if tools and body.get("grammar"):
        raise InvalidRequest("Cannot use custom grammar constraints with tools.")
    if choice == "none":
        return Offer()
    parallel = lenient(body, "parallel_tool_calls", service.template.caps.supports_parallel_tool_calls)
    form = service.template.format
    # A template that shows no tools cannot be held to them: upstream answers freely, too.
    required = choice == "required" and bool(tools) and form is not None
    if required and form is not None and form.envelope is None:
        raise not_built("tool_choice")
    return Offer(tools, required, parallel)


def imposed(offer: Offer, prompt: Prompt, service: Service) -> Grammar | None:
    """What `tool_choice: required` makes of an answer: one call. None where nothing is required.

    Behind a prompt that stops inside a thought the rule waits for the tag that closes it.
    """
    form, tags = service.template.format, service.template.tags
    if not offer.required or form is None or form.envelope is None:
        return None
    frame = form.envelope(offer.schemas)
    if not prompt.inside or tags is None:
        return Grammar(envelope_grammar(frame.begin, frame.schema, frame.end, service.tokenizer))
    begin = f"{tags.close}\n\n{frame.begin}"
    text = envelope_grammar(begin, frame.schema, frame.end, service.tokenizer)
    return Grammar(text, lazy=True, triggers=(Trigger(TriggerKind.WORD, tags.close),))


def _refuse(body: Body, tools: list[Message]) -> None:
    """Upstream's answer under `--no-jinja`."""
    if tools:
        raise ServerFault("tools param requires --jinja flag")
    if body.get("tool_choice") is not None:
        raise ServerFault("tool_choice param requires --jinja flag")


def _tools(body: Body) -> list[Message]:
    tools = body.get("tools")
    if tools is None:
        return []
    if not isinstance(tools, list):
        raise InvalidRequest(f"Expected 'tools' to be an array, got {type_name(tools)}")
    if not all(isinstance(tool, dict) for tool in cast("list[object]", tools)):
        raise InvalidRequest("Expected every tool to be an object")
    return cast("list[Message]", tools)
