"""From a conversation to the text that the model is given, up to the point where it goes on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stoker.core.errors import InvalidRequest
from stoker.routes.schema.tools import Offer, Prompt
from stoker.routes.service import Service
from stoker.text.caps import Message
from stoker.text.reasoning import Tags, opens_at_end, stops_inside


@dataclass(frozen=True, slots=True)
class Start:
    """The beginning of the answer, which the client itself gave."""

    content: str = ""
    thought: str = ""
    open: bool = False
    """True: the thought goes on, and there is no content yet."""


@dataclass(frozen=True, slots=True)
class Conversation:
    messages: list[Message]
    offer: Offer
    kwargs: Mapping[str, object]
    add_generation_prompt: bool = True
    start: Start | None = None

    def continued(self, start: Start) -> "Conversation":
        """The same without its last message, which is the start of the answer."""
        return replace(self, messages=self.messages[:-1], add_generation_prompt=True, start=start)


def render(conversation: Conversation, service: Service) -> Prompt:
    """The prompt; a leading begin token is left to the tokenizer where that adds one anyway."""
    template = service.template
    text = template.render(
        conversation.messages, conversation.offer.tools, conversation.add_generation_prompt, **conversation.kwargs
    )
    if service.tokenizer.adds_bos and service.tokenizer.bos_text:
        text = text.removeprefix(service.tokenizer.bos_text)
    if template.tags is None:
        return _begun(text, conversation.start)
    opened = opens_at_end(text, template.tags)
    if conversation.start is not None:
        return _thinking(text, conversation.start, template.tags, opened=opened)
    if opened and conversation.kwargs.get("enable_thinking") is False:
        # The template thinks whatever it is told: the thought ends where it begins.
        return Prompt(f"{text.rstrip()}\n\n{template.tags.close}\n\n")
    return Prompt(text, opened)


def _begun(text: str, start: Start | None) -> Prompt:
    if start is None:
        return Prompt(text)
    if start.open:
        raise InvalidRequest("continue_final_message: the chat template has no reasoning that could go on.")
    return Prompt(text + start.content)


def _thinking(text: str, start: Start, tags: Tags, *, opened: bool) -> Prompt:
    """Puts the client's thought between the tags, and its content behind them."""
    if not opened and (start.thought or start.open):
        text += tags.open + "\n"
    if start.open:
        return Prompt(text + start.thought, inside=True)
    if start.thought or opened:
        return Prompt(f"{text}{start.thought}\n{tags.close}\n\n{start.content}")
    return Prompt(text + start.content, stops_inside(start.content, tags))
