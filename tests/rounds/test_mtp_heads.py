"""Qwen3.5's heads as a drafter, against the reference's recorded rounds and against themselves."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from models.nets import published, scripts
from models.nets.scripts import BLOCK, PROMPT, QWEN_CASES, ROUNDS
from stoker.acceptance.verdict import Verdict
from stoker.core.request import Sampling
from stoker.models.nets.lender import lend
from stoker.models.nets.qwen3_5_mtp import Qwen35Mtp, load
from stoker.models.target import Target
from stoker.rounds.base import Ask, Drawing, Opening
from stoker.rounds.mtp_heads import LONGEST_DEBT, HeadsSession, MtpHeads

pytestmark = pytest.mark.mlx

GREEDY = Sampling(temperature=0)
RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "models/nets/recorded/qwen3_5_mtp.json").read_text("utf-8")
)


class Watched(Qwen35Mtp):
    """Remembers what it gave."""

    given: list[mx.array]

    def __call__(self, embedded: mx.array, hidden: mx.array, cache: list[Any]) -> mx.array:
        out = super().__call__(embedded, hidden, cache)
        self.given.append(out)
        return out


def drafter(path: Path, dtype: mx.Dtype = mx.float32, slots: int = 1) -> MtpHeads:
    model = published.qwen_target()
    model.set_dtype(dtype)
    net = load(path, packed=True)
    net.__class__ = Watched
    net.given = []  # type: ignore[attr-defined]
    target = Target(model, slots, 256)
    return MtpHeads(net, target, lend(target), most=BLOCK - 1)


def given(heads: MtpHeads) -> list[mx.array]:
    return heads.net.given  # type: ignore[attr-defined]


def opened(
    heads: MtpHeads, dtype: mx.Dtype = mx.float32, slot: int = 0, prompt: Sequence[int] = PROMPT
) -> HeadsSession:
    session = heads.open(Opening(slot, slot, tuple(prompt), 0, GREEDY, BLOCK - 1))
    session.read(len(prompt) - 1, {heads.layer: scripts.residuals(0, len(prompt) - 1).astype(dtype)})
    return session


def proposed(heads: MtpHeads, session: HeadsSession) -> list[int]:
    (made,) = heads.propose([Ask(session, session.tokens[-1], len(session.tokens) - 1, BLOCK - 1)])
    return np.array(made.tokens).tolist()


def judged(heads: MtpHeads, session: HeadsSession, number: int, drafted: Sequence[int], dtype: mx.Dtype) -> None:
    accepted = ROUNDS[number]
    emitted = (*drafted[:accepted], scripts.final(number))
    verdict = Verdict(emitted, accepted, min(accepted + 1, BLOCK - 1))
    stream = scripts.verified(number).astype(dtype)[: len(emitted)]
    session.observe(verdict, BLOCK - 1, {heads.layer: stream})


@pytest.mark.parametrize("name", QWEN_CASES)
def test_rounds_are_the_references(name: str, tmp_path: Path) -> None:
    case, reference = QWEN_CASES[name], RECORDED[name]
    heads = drafter(case.write(tmp_path), case.dtype)
    session = opened(heads, case.dtype)
    given(heads).clear()
    proposals, columns = [], []
    hidden: list[np.ndarray] = []
    for number in range(len(ROUNDS)):
        proposals.append(proposed(heads, session))
        columns.append(heads.columns.lengths[0] - session.chained)
        hidden += [np.array(out.astype(mx.float32))[0, -1] for out in given(heads)]
        given(heads).clear()
        judged(heads, session, number, proposals[-1], case.dtype)
    assert proposals == reference["proposals"]
    assert columns == reference["columns"][:-1]
    room = 1e-3 if case.dtype == mx.float32 else 0.1
    assert np.abs(np.stack(hidden) - np.array(reference["hidden"][: len(hidden)])).max() < room


def test_ragged_rows_draft_together_as_they_do_alone(tmp_path: Path) -> None:
    path = published.qwen_native(tmp_path)
    prompts = (PROMPT, PROMPT[:5], PROMPT[3:9])
    together = drafter(path, slots=3)
    sessions = [opened(together, slot=n, prompt=prompt) for n, prompt in enumerate(prompts)]
    sessions[1].observe(Verdict((40,), 0, 0), 0, {together.layer: scripts.residuals(1, 1)})
    asks = [Ask(s, s.tokens[-1], len(s.tokens) - 1, limit) for s, limit in zip(sessions, (3, 2, 1), strict=True)]
    made = [np.array(it.tokens).tolist() for it in together.propose(asks)]
    for n, (prompt, limit) in enumerate(zip(prompts, (3, 2, 1), strict=True)):
        alone = drafter(path)
        session = opened(alone, prompt=prompt)
        if n == 1:
            session.observe(Verdict((40,), 0, 0), 0, {alone.layer: scripts.residuals(1, 1)})
        assert made[n] == proposed(alone, session)[:limit]


def test_tokens_of_plain_rounds_are_pending_and_run_down_in_time(tmp_path: Path) -> None:
    path = published.qwen_native(tmp_path)
    heads = drafter(path)
    session = opened(heads)
    emitted = [n % 50 for n in range(LONGEST_DEBT + 5)]
    for n, token in enumerate(emitted):
        session.observe(Verdict((token,), 0, 0), 0, {heads.layer: scripts.residuals(n, 1)})
    assert len(session.owed) <= LONGEST_DEBT
    assert heads.columns.lengths[0] + len(session.owed) == len(session.tokens) - 1
    whole = drafter(path)
    stream = [scripts.residuals(0, len(PROMPT) - 1), *(scripts.residuals(n, 1) for n in range(len(emitted)))]
    other = whole.open(Opening(0, 0, (*PROMPT, *emitted), 0, GREEDY, BLOCK - 1))
    other.read(len(PROMPT) + len(emitted) - 1, {whole.layer: mx.concatenate(stream)})
    assert proposed(heads, session) == proposed(whole, other)


@pytest.mark.parametrize(("cached", "reused"), [(7, True), (5, True), (9, False)])
def test_a_slots_columns_are_reused_where_the_tokens_agree_and_begin_anew_behind_a_gap(
    cached: int, reused: bool, tmp_path: Path
) -> None:
    """With 9 columns adopted by the target, hidden states between the heads' last column and there are missing."""
    path = published.qwen_native(tmp_path)
    heads = drafter(path)
    opened(heads).close(8)
    assert heads.columns.lengths[0] == 7
    prompt = (*PROMPT[:8], 99, 98, 97)
    stream = mx.concatenate([scripts.residuals(0, len(PROMPT) - 1)[:8], scripts.residuals(3, 2)])
    session = heads.open(Opening(0, 0, prompt, cached, GREEDY, BLOCK - 1))
    assert session.start == (0 if reused else cached)
    assert session.held == (cached if reused else 0)
    session.read(len(prompt) - 1, {heads.layer: stream[cached:]})
    whole = drafter(path)
    start = 0 if reused else cached
    other = whole.open(Opening(0, 0, prompt[start:], 0, GREEDY, BLOCK - 1))
    other.read(len(prompt) - start - 1, {whole.layer: stream[start:]})
    assert proposed(heads, session) == proposed(whole, other)


def test_nothing_is_proposed_before_a_hidden_state_was_seen(tmp_path: Path) -> None:
    heads = drafter(published.qwen_native(tmp_path))
    session = heads.open(Opening(0, 0, PROMPT, len(PROMPT) - 1, GREEDY, BLOCK - 1))
    assert not session.wants_round
    session.observe(Verdict((5,), 0, 0), 0, {heads.layer: scripts.residuals(1, 1)})
    assert session.wants_round
    assert len(proposed(heads, session)) == BLOCK - 1


def test_the_seeds_distribution_goes_with_it(tmp_path: Path) -> None:
    heads = drafter(published.qwen_native(tmp_path))
    warm = Sampling(seed=5, temperature=0.7, top_k=0, top_p=1.0, min_p=0.0)
    session = heads.open(Opening(0, 0, PROMPT, 0, warm, BLOCK - 1))
    session.read(len(PROMPT) - 1, {heads.layer: scripts.residuals(0, len(PROMPT) - 1)})
    given(heads).clear()
    ask = Ask(session, PROMPT[-1], len(PROMPT) - 1, BLOCK - 1, Drawing(coupled=False, with_q=True))
    (made,) = heads.propose([ask])
    assert made.q is not None
    hidden = mx.stack([out[0, -1] for out in given(heads)])
    expected = mx.softmax(heads.lender.head(hidden) / 0.7, axis=-1)
    assert mx.allclose(made.q, expected, rtol=0, atol=1e-6).item()


def continued(
    heads: MtpHeads, prompt: tuple[int, ...], cached: int, stream: mx.array, source: int = -1, kept: int = -1
) -> list[int]:
    """A second request's first proposals; the target holds `cached` of its columns."""
    session = heads.open(Opening(7, 0, prompt, cached, GREEDY, BLOCK - 1, source=source, kept=kept))
    if cached < len(prompt) - 1:
        session.read(len(prompt) - 1, {heads.layer: stream[cached:]})
    assert session.start == 0
    return proposed(heads, session)


@pytest.mark.parametrize("more", [0, 3])
def test_a_conversation_goes_on_where_the_slot_ends(more: int, tmp_path: Path) -> None:
    """The last column of a slot has no successor when its request leaves: the next prompt brings it."""
    path = published.qwen_native(tmp_path)
    heads = drafter(path)
    session = opened(heads)
    emitted = (5, 6, 7)
    session.observe(Verdict(emitted, 2, 3), 0, {heads.layer: scripts.residuals(1, 3)})
    keep = len(PROMPT) + 2
    session.close(keep)
    assert heads.columns.lengths[0] == keep - 1
    prompt = (*PROMPT, 5, 6, 90, *range(20, 20 + more))
    stream = mx.concatenate(
        [scripts.residuals(0, len(PROMPT) - 1), scripts.residuals(1, 3), scripts.residuals(2, more)]
    )
    whole = drafter(path)
    other = whole.open(Opening(0, 0, prompt, 0, GREEDY, BLOCK - 1))
    other.read(len(prompt) - 1, {whole.layer: stream[: len(prompt) - 1]})
    assert continued(heads, prompt, keep, stream) == proposed(whole, other)


def test_columns_follow_the_targets_into_another_slot_and_back_from_the_shelf(tmp_path: Path) -> None:
    path = published.qwen_native(tmp_path)
    heads = drafter(path, slots=2)
    session = opened(heads, slot=1)
    stream = scripts.residuals(0, len(PROMPT) - 1)
    expected = continued(drafter(path), PROMPT, 0, stream)
    assert continued(heads, PROMPT, len(PROMPT) - 1, stream, source=1) == expected
    heads.keep(1, 42)
    session.close(0)
    heads.columns.cut(1, 0)
    assert continued(heads, PROMPT, len(PROMPT) - 1, stream, kept=42) == expected
    heads.drop([42])
    gone = heads.open(Opening(9, 1, PROMPT, len(PROMPT) - 1, GREEDY, BLOCK - 1, kept=42))
    assert not gone.wants_round
