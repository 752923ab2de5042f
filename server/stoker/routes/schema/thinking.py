"""How long an answer may think: the bound of a request, and the words that end a thought by force."""

from collections.abc import Mapping

from stoker.core.request import ThoughtLimit
from stoker.routes.schema import tables
from stoker.routes.schema.fields import read_array, read_bool, read_int, read_string
from stoker.routes.service import Service

Body = Mapping[str, object]


def read_thought(body: Body, service: Service) -> ThoughtLimit | None:
    """The bound that a native body names, tags and all; None where it names none."""
    opens = read_string(body, "reasoning_budget_start_tag", "")
    tags = read_array(body, "reasoning_budget_end_tags") or [body.get("reasoning_budget_end_tag")]
    closes = tuple(tag for tag in tags if isinstance(tag, str) and tag)
    return limit(body, service, opens, closes, inside=False)


def limit(
    body: Body, service: Service, opens: str, closes: tuple[str, ...], *, inside: bool, words: str = ""
) -> ThoughtLimit | None:
    """`words` end the thought, by default the first of `closes`; a message of the client or server stands before."""
    budget = read_int(body, tables.REASONING_BUDGET, -1)
    if budget < 0:
        budget = service.defaults.reasoning_budget
    message = read_string(body, "reasoning_budget_message", service.defaults.reasoning_budget_message)
    if not opens or not closes or (budget < 0 and not read_bool(body, "reasoning_control", False)):
        return None
    ending = service.tokenizer.encode(message + (words or closes[0]), add_special=False, parse_special=True)
    return ThoughtLimit(opens, closes, tuple(ending), budget, inside)
