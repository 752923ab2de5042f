"""How near a server was to the recorded text where it left it: the gap of the two tokens' logits.

A small gap is a matter of rounding; a large one is a fault. Asked of the server itself, over the
same prompt and the tokens that both texts share.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import httpx

from compat.library import Case
from compat.texts import Agreement, Split

CANDIDATES = 500
"""How many of the server's likeliest tokens are searched for the recorded one."""

Client = httpx.Client | httpx.AsyncClient


async def gap(client: Client, case: Case, told: Agreement, split: Split) -> float | None:
    """Natural logarithm of p(own token) / p(recorded token) at the divergence; None where it cannot be told."""
    if told.first_divergence is None:
        return None
    want, have = split(told.expected), split(told.got)
    at = told.first_divergence
    prompt = await _prompt(client, case)
    if prompt is None or at >= min(len(want), len(have)):
        return None
    body = {"prompt": [*prompt, *have[:at]], "n_predict": 1, "n_probs": CANDIDATES, "temperature": 0}
    answer = await post(client, "/completion", body)
    found: list[Any] = answer.get("completion_probabilities") or [] if isinstance(answer, dict) else []
    known = {entry["id"]: entry["logprob"] for entry in (found[0]["top_logprobs"] if found else [])}
    if want[at] not in known or have[at] not in known:
        return None
    return known[have[at]] - known[want[at]]


async def _prompt(client: Client, case: Case) -> Sequence[object] | None:
    """The case's prompt as the parts of a mixed array: texts and token ids."""
    prompt = case.context.asked("prompt")
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt, list):
        return prompt
    if case.context.asked("messages") is None:
        return None
    answer = await post(client, "/apply-template", case.context.body)
    text = answer.get("prompt") if isinstance(answer, dict) else None
    return [text] if isinstance(text, str) else None


async def post(client: Client, path: str, body: Any) -> Any:
    """The JSON answer to a POST, or None where the server refuses it."""
    sent = client.request("POST", path, json=body)
    response = await sent if inspect.isawaitable(sent) else sent
    return response.json() if response.status_code == 200 else None
