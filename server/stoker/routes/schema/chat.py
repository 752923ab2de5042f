"""A chat body: what the template gets, and the native fields that stand for the rest."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from stoker.core.errors import InvalidRequest, NotSupported, ServerFault
from stoker.routes.body import members
from stoker.routes.schema.fields import lenient, lenient_int, type_name
from stoker.routes.schema.job import Job
from stoker.routes.schema.messages import read_messages
from stoker.routes.schema.native import REASONING_FORMATS, not_built, read_job
from stoker.routes.service import Service
from stoker.text.caps import Message
from stoker.text.template import join_text

Body = Mapping[str, object]

CHAT_FORMAT = "peg-native"
_TOP_LOGPROBS = 20


@dataclass(frozen=True, slots=True)
class Conversation:
    messages: list[Message]
    tools: list[Message]
    kwargs: Mapping[str, object]
    add_generation_prompt: bool = True
    prefill: str = ""
    """Text of a final assistant message, which the answer continues."""


def read_chat(body: Body, service: Service) -> Job:
    """Raises what llama-server answers: InvalidRequest, ServerFault, NotSupported."""
    conversation = read_conversation(body, service)
    native = native_fields(body, conversation)
    prompt = render(conversation, service)
    ids = service.tokenizer.encode(prompt, add_special=True, parse_special=True)
    job = read_job(native, [tuple(ids)], service)
    options = replace(job.options, chat_format=CHAT_FORMAT, generation_prompt=service.template.generation_prompt)
    return replace(job, options=options, prefill=conversation.prefill)


def render(conversation: Conversation, service: Service) -> str:
    """The prompt; a leading begin token is left to the tokenizer where that adds one anyway."""
    prompt = service.template.render(
        conversation.messages, conversation.tools, conversation.add_generation_prompt, **conversation.kwargs
    )
    if service.tokenizer.adds_bos and service.tokenizer.bos_text:
        prompt = prompt.removeprefix(service.tokenizer.bos_text)
    return prompt + conversation.prefill


def read_conversation(body: Body, service: Service) -> Conversation:
    _check_format(body)
    messages = read_messages(body)
    tools = _tools(body)
    choice = lenient(body, "tool_choice", "auto")
    if not service.defaults.jinja:
        _refuse_tools(body, tools)
    if choice not in ("auto", "none", "required"):
        raise InvalidRequest(f"Invalid tool_choice: {choice}")
    if tools and choice == "required" and service.template.caps.supports_tools:
        raise not_built("tool_choice")
    if tools and body.get("grammar"):
        raise InvalidRequest("Cannot use custom grammar constraints with tools.")
    kwargs = _kwargs(body, service)
    adds = lenient(body, "add_generation_prompt", True)
    if not _continues(body, messages, service):
        return Conversation(messages, [] if choice == "none" else tools, kwargs, adds)
    prefill = join_text(messages[-1].get("content"))
    return Conversation(messages[:-1], [] if choice == "none" else tools, kwargs, prefill=prefill)


def native_fields(body: Body, conversation: Conversation) -> Body:
    """The body as the native parser shall read it."""
    native = {name: value for name, value in body.items() if name not in ("logprobs", "top_logprobs")}
    if lenient(body, "logprobs", False):
        if conversation.tools and lenient(body, "stream", False):
            raise InvalidRequest("logprobs is not supported with tools + stream")
        native.setdefault("n_probs", lenient_int(body, "top_logprobs", _TOP_LOGPROBS))
    elif body.get("top_logprobs") is not None:
        raise InvalidRequest("top_logprobs requires logprobs to be set to true")
    if "reasoning_budget_tokens" not in native and "thinking_budget_tokens" in native:
        native["reasoning_budget_tokens"] = native["thinking_budget_tokens"]
    return native


def _check_format(body: Body) -> None:
    """Constraints on the text: none is built yet, and an unknown one is an error."""
    if body.get("json_schema") is not None and body.get("grammar"):
        raise ServerFault("Cannot use both json_schema and grammar")
    if body.get("json_schema") is not None:
        raise not_built("json_schema")
    reasoning = lenient(body, "reasoning_format", REASONING_FORMATS[0])
    if reasoning not in REASONING_FORMATS:
        raise ServerFault(f"Unknown reasoning format: {reasoning}")
    form = members(body.get("response_format"))
    kind = lenient(form, "type", "")
    if kind == "json_schema" or (kind == "json_object" and form.get("schema")):
        raise NotSupported(f"Field 'response_format': {kind} with a schema is not built yet")
    if kind and kind not in ("text", "json_object"):
        raise InvalidRequest(f'response_format type must be one of "text" or "json_object", but got: {kind}')


def _refuse_tools(body: Body, tools: list[Message]) -> None:
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


def _kwargs(body: Body, service: Service) -> dict[str, object]:
    """Variables for the template: the server's, then the request's."""
    given = body.get("chat_template_kwargs")
    kwargs = {**service.defaults.template_kwargs, **members(given)}
    effort = lenient(body, "reasoning_effort", "")
    if effort == "none":
        kwargs.setdefault("enable_thinking", False)
    elif effort:
        kwargs.setdefault("reasoning_effort", effort)
    thinking = kwargs.get("enable_thinking", True)
    if not isinstance(thinking, bool):
        raise InvalidRequest(f'invalid type for "enable_thinking" (expected boolean, got {type_name(thinking)})')
    return kwargs


def _continues(body: Body, messages: list[Message], service: Service) -> bool:
    """Whether the answer goes on with the last message instead of opening a new one."""
    last: Message = messages[-1] if messages else {}
    is_open = last.get("role") == "assistant" and not last.get("tool_calls")
    wish = body.get("continue_final_message")
    if wish in (True, "content", "reasoning_content"):
        if body.get("add_generation_prompt") is True:
            raise InvalidRequest("Cannot set both add_generation_prompt and continue_final_message to true.")
        if wish == "reasoning_content":
            raise not_built("continue_final_message")
        if not is_open:
            raise InvalidRequest("continue_final_message needs an assistant message at the end of the list.")
    elif wish is False or not service.defaults.prefill_assistant or not is_open:
        return False
    if len(messages) > 1 and messages[-2].get("role") == "assistant":
        raise InvalidRequest("Cannot have 2 or more assistant messages at the end of the list.")
    return True
