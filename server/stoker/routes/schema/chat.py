"""A chat body: what the template gets, and the native fields that stand for the rest."""

from collections.abc import Mapping

from stoker.core.errors import InvalidRequest, ServerFault
from stoker.routes.body import members
from stoker.routes.schema.answering import with_answer
from stoker.routes.schema.fields import lenient, lenient_int, type_name
from stoker.routes.schema.grammar import chat_grammar
from stoker.routes.schema.job import Job
from stoker.routes.schema.messages import read_messages
from stoker.routes.schema.native import REASONING_FORMATS, read_job
from stoker.routes.schema.rendering import Conversation, Start, render
from stoker.routes.schema.tools import read_offer
from stoker.routes.service import Service
from stoker.text.caps import Message
from stoker.text.template import join_text

Body = Mapping[str, object]

_TOP_LOGPROBS = 20
_CHAT_ONLY = ("logprobs", "top_logprobs", "json_schema", "response_format")
"""Fields that mean something else to the native parser, or have become others."""


def read_chat(body: Body, service: Service) -> Job:
    """Raises what llama-server answers: InvalidRequest, ServerFault, NotSupported."""
    conversation = read_conversation(body, service)
    native = native_fields(body, conversation)
    prompt = render(conversation, service)
    ids = service.tokenizer.encode(prompt.text, add_special=True, parse_special=True)
    job = read_job(native, [tuple(ids)], service)
    return with_answer(job, native, conversation, prompt, service)


def count_tokens(body: Body, service: Service) -> int:
    """Tokens of the prompt that a chat body makes."""
    prompt = render(read_conversation(body, service), service)
    return len(service.tokenizer.encode(prompt.text, add_special=True, parse_special=True))


def read_conversation(body: Body, service: Service) -> Conversation:
    _check_format(body)
    messages = read_messages(body)
    adds = lenient(body, "add_generation_prompt", True)
    conversation = Conversation(messages, read_offer(body, service), _kwargs(body, service), adds)
    if not _continues(body, messages, service):
        return conversation
    thought = lenient(messages[-1], "reasoning_content", "")
    if body.get("continue_final_message") == "reasoning_content":
        return conversation.continued(Start(thought=thought, open=True))
    content = join_text(messages[-1].get("content"), "\n\n")  # as upstream; elsewhere its parts are on single lines
    return conversation.continued(Start(content, thought))


def native_fields(body: Body, conversation: Conversation) -> Body:
    """The body as the native parser shall read it."""
    native = {name: value for name, value in body.items() if name not in _CHAT_ONLY} | dict(chat_grammar(body))
    if lenient(body, "logprobs", False):
        if conversation.offer.tools and lenient(body, "stream", False):
            raise InvalidRequest("logprobs is not supported with tools + stream")
        native.setdefault("n_probs", lenient_int(body, "top_logprobs", _TOP_LOGPROBS))
    elif body.get("top_logprobs") is not None:
        raise InvalidRequest("top_logprobs requires logprobs to be set to true")
    if "reasoning_budget_tokens" not in native and "thinking_budget_tokens" in native:
        native["reasoning_budget_tokens"] = native["thinking_budget_tokens"]
    return native


def _check_format(body: Body) -> None:
    """Unknown ways to write thoughts, and what is wrong with the wishes for the answer's form."""
    reasoning = lenient(body, "reasoning_format", REASONING_FORMATS[0])
    if reasoning not in REASONING_FORMATS:
        raise ServerFault(f"Unknown reasoning format: {reasoning}")
    chat_grammar(body)


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
    if service.template.tags is not None:
        kwargs.setdefault("enable_thinking", True)
        if "enable_thinking" not in service.template.source:
            kwargs.setdefault("thinking", thinking)
    return kwargs


def _continues(body: Body, messages: list[Message], service: Service) -> bool:
    """Whether the answer goes on with the last message instead of opening a new one."""
    last: Message = messages[-1] if messages else {}
    is_open = last.get("role") == "assistant" and not last.get("tool_calls")
    wish = body.get("continue_final_message")
    if wish in (True, "content", "reasoning_content"):
        if body.get("add_generation_prompt") is True:
            raise InvalidRequest("Cannot set both add_generation_prompt and continue_final_message to true.")
        if not is_open:
            raise InvalidRequest("continue_final_message needs an assistant message at the end of the list.")
    elif wish is False or not service.defaults.prefill_assistant or not is_open:
        return False
    if len(messages) > 1 and messages[-2].get("role") == "assistant":
        raise InvalidRequest("Cannot have 2 or more assistant messages at the end of the list.")
    return True
