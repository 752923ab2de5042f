"""Grammars on the real loop: what comes out fits, drafted or not, and drafting changes no token."""

import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from letters import CONTROL, Letters
from models import tiny
from rounds.harness import GREEDY, WARM, Harness, Wanted
from rounds.oracle import Oracle
from schemas import fits, random_schema
from stoker.acceptance.governor import Gated
from stoker.acceptance.select import Setting
from stoker.core.counters import DraftOff
from stoker.core.errors import InvalidRequest, ServerFault
from stoker.core.request import Grammar, Sampling, Speculation, Trigger, TriggerKind
from stoker.core.work import Join, Plan, PrefillWork, Release, StepWork
from stoker.models.target import Target
from stoker.rounds.base import Drafter
from stoker.rounds.draft_model import DraftModel
from stoker.rounds.lookup import Lookup
from stoker.rounds.ngrams import Sizes
from stoker.rounds.speculator import Speculation as How
from stoker.text.grammar import Grammars
from stoker.text.schema import of_schema

pytestmark = pytest.mark.mlx

LETTERS = Letters()
ENDS = LETTERS.end_ids
GRAMMARS = Grammars(LETTERS)
PROMPT = (40, 41, 42, 43)
ROOM = 400
LONGEST = 1500
"""Tokens within which any value of a bounded schema ends."""


@pytest.fixture(scope="module")
def target() -> Target:
    return Target(tiny.llama(), 4, 512)


def plain(target: Target, item: Wanted) -> list[int]:
    """What the request emits alone and undrafted."""
    return Harness(target, None, ENDS, GRAMMARS).run([replace(item, join_at=0, speculation=Speculation())])[0]


def drafted(target: Target, wanted: Sequence[Wanted], drafter: Drafter, setting: Setting = Setting.MATCH) -> Harness:
    harness = Harness(target, How({drafter.kind: drafter}, drafter.kind, setting), ENDS, GRAMMARS)
    harness.run(wanted)
    return harness


def lookup() -> Lookup:
    return Lookup(Sizes(3, 1, 6, 1), lambda most: Gated(most, floor=0.0))


def answer(tokens: Sequence[int]) -> str | None:
    """The text of an answer that ended by itself; None for one that was cut."""
    return LETTERS.text(tokens[:-1]) if tokens and tokens[-1] in ENDS else None


def want(grammar: str | Grammar, sampling: Sampling = WARM, count: int = ROOM, probs: int = 0) -> Wanted:
    held = Grammar(grammar) if isinstance(grammar, str) else grammar
    return Wanted(PROMPT, count, sampling, probs, grammar=held)


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_every_answer_under_a_random_schema_is_a_value_of_it(count: int) -> None:
    target = Target(tiny.llama(), 4, 2 * LONGEST)
    for seed in range(count):
        schema = random_schema(random.Random(seed))
        item = want(of_schema(schema), replace(WARM, seed=seed), LONGEST)
        truth = plain(target, item)
        text = answer(truth)
        assert text is not None, (seed, len(truth), LETTERS.text(truth))
        assert fits(json.loads(text), schema), (seed, text, schema)
        harness = drafted(target, [item], Oracle({PROMPT: truth}, error=0.25, on_device=seed % 2 == 0))
        assert harness.tokens[0] == truth, (seed, schema)
        assert drafted(target, [item], lookup()).tokens[0] == truth, (seed, schema)


LIST = 'root ::= item{3,12}\nitem ::= "- " [a-z ]{1,12} "\\n"\n'
PAIRS = 'root ::= pair\npair ::= "(" pair? ")" | "[" pair? "]"\n'


@pytest.mark.parametrize(
    "sampling",
    [
        GREEDY,
        Sampling(seed=3),
        replace(WARM, seed=4, top_k=2),
        replace(WARM, repeat_penalty=1.4, frequency_penalty=0.5),
        replace(WARM, dry_multiplier=0.8),
        replace(WARM, logit_bias=((65, 2.0), (66, -float("inf")))),
    ],
    ids=["greedy", "default", "top-k", "penalties", "dry", "bias"],
)
@pytest.mark.parametrize("grammar", [LIST, PAIRS], ids=["list", "pairs"])
def test_drafted_and_undrafted_answers_are_equal_and_fit(target: Target, grammar: str, sampling: Sampling) -> None:
    item = want(grammar, sampling, 120)
    truth = plain(target, item)
    text = answer(truth)
    if grammar == LIST and text is not None:
        assert re.fullmatch(r"(- [a-z ]{1,12}\n){3,12}", text)
    for drafter in (Oracle({PROMPT: truth}, on_device=True), Oracle({PROMPT: truth}, error=1.0), lookup()):
        harness = drafted(target, [item], drafter)
        assert harness.tokens[0] == truth
        assert not harness.errors
    right = drafted(target, [item], Oracle({PROMPT: truth}, error=0.0, full=True))
    assert right.counters[0].accepted >= len(truth) // 2, "a row with a grammar drafts"
    assert {outcome.off for outcome in right.outcomes if outcome.tokens} == {None}


def test_rows_with_and_without_grammars_keep_each_other_company(target: Target) -> None:
    wanted = [
        want(LIST, count=60),
        Wanted((50, 51), 60, WARM),
        replace(want(of_schema({"type": "array", "items": {"type": "integer"}, "maxItems": 9})), join_at=3),
        replace(want('root ::= "yes" | "no"', GREEDY), join_at=5),
    ]
    truth = [plain(target, item) for item in wanted]
    assert list(Harness(target, None, ENDS, GRAMMARS).run(wanted).values()) == truth
    drafter = Oracle({wanted[1].prompt: truth[1], PROMPT: truth[0]})
    assert list(drafted(target, wanted, drafter).tokens.values()) == truth


def test_greedy_takes_the_best_token_that_is_allowed() -> None:
    model = tiny.llama()
    grammar = 'root ::= [a-f]{6} "!"'
    emitted = plain(Target(model, 1, 256), want(grammar, GREEDY))
    letters = [id for id, piece in enumerate(LETTERS.pieces) if re.fullmatch(rb"[a-f]+", piece)]
    history: list[int] = [*PROMPT]
    left = 6
    while left:
        logits = np.array(model(mx.array([history]))[0, -1])
        fitting = [id for id in letters if len(LETTERS.pieces[id]) <= left]
        history.append(max(fitting, key=lambda id: logits[id]))
        left -= len(LETTERS.pieces[history[-1]])
    assert emitted[:-2] == history[len(PROMPT) :]
    assert LETTERS.text(emitted).endswith("!")
    assert emitted[-1] in ENDS


def test_what_the_grammar_forbids_is_not_verified(target: Target) -> None:
    item = want("root ::= [a-z]{40}", GREEDY, 60)
    truth = plain(target, item)
    stray = Oracle({PROMPT: [CONTROL] * 60}, error=0.0, full=True)
    harness = drafted(target, [item], stray)
    assert harness.tokens[0] == truth
    assert harness.counters[0].rounds == 0


def test_a_bias_chooses_among_what_is_allowed_and_never_breaks_the_grammar(target: Target) -> None:
    yes, no = LETTERS.encode("yes")[0], LETTERS.encode("no")[0]
    banned = [(id, -float("inf")) for id in (yes, *(LETTERS.encode(c)[0] for c in "y"))]
    choice = 'root ::= "yes" | "no"'
    for sampling in (GREEDY, WARM):
        assert LETTERS.text(plain(target, want(choice, replace(sampling, logit_bias=tuple(banned))))) == "no"
        everything = tuple((id, -float("inf")) for id in range(128))
        assert LETTERS.text(plain(target, want(choice, replace(sampling, logit_bias=everything)))) in ("yes", "no")
        endless = tuple((id, -float("inf")) for id in ENDS)
        ended = plain(target, want(choice, replace(sampling, logit_bias=endless)))
        assert ended[-1] in ENDS, "where only the end is left, ignore_eos gives way"
        assert len(plain(target, want('root ::= "a"+', replace(sampling, logit_bias=endless), 30))) == 30
    assert no


@pytest.mark.parametrize("rule", [Setting.MATCH, Setting.STOCHASTIC])
def test_probabilities_are_the_models_own_before_the_chain_and_the_grammars_after_it(
    target: Target, rule: Setting
) -> None:
    item = replace(want("root ::= [a-c]{30}", WARM, probs=3))
    free = Harness(target, None, ENDS, GRAMMARS)
    truth = free.run([item])[0]
    model = DraftModel(Target(tiny.llama(seed=1), 4, 512), target)
    raw = [probs for outcome in free.outcomes for probs in outcome.probs]
    assert any({id for id, _ in probs.top} - set(LETTERS.encode("a b c")) for probs in raw), "raw ones know no grammar"
    for drafter in (None, model):
        harness = (
            drafted(target, [replace(item, post=True)], drafter, rule)
            if drafter
            else Harness(target, None, ENDS, GRAMMARS)
        )
        tokens = harness.tokens[0] if drafter else harness.run([replace(item, post=True)])[0]
        posts = [probs for outcome in harness.outcomes for probs in outcome.probs]
        assert len(posts) == len(tokens)
        for token, probs in zip(tokens, posts, strict=True):
            allowed = set(LETTERS.encode("ab")) | {
                id for id, p in enumerate(LETTERS.pieces) if re.fullmatch(rb"[a-c]+", p)
            }
            assert {id for id, p in probs.top if p > 0} <= allowed | set(ENDS)
            assert probs.logprob > 0, token
        if rule is Setting.MATCH:
            assert tokens == truth


def test_mirostat_and_adaptive_p_obey_too(target: Target) -> None:
    for sampling in (
        replace(WARM, mirostat=1),
        replace(WARM, mirostat=2),
        replace(WARM, samplers=("adaptive_p",), adaptive_target=0.5),
    ):
        harness = drafted(target, [want("root ::= [a-c]{30}", sampling)], lookup())
        assert re.fullmatch("[a-c]{30}", LETTERS.text(harness.tokens[0]))
        assert harness.outcomes[-1].off is DraftOff.SAMPLER


def test_a_lazy_grammar_sleeps_until_its_trigger_and_wakes_inside_a_draft(target: Target) -> None:
    free = plain(target, Wanted(PROMPT, 80, WARM))
    word = LETTERS.text(free[20:22])
    assert LETTERS.text(free).count(word) >= 1
    body = json.dumps(word)
    lazy = Grammar(f'root ::= {body} "<" [0-9]{{5}} ">"', True, (Trigger(TriggerKind.WORD, word),))
    item = want(lazy, count=120)
    truth = plain(target, item)
    text = LETTERS.text(truth)
    before = text.index(word)
    assert text[:before] == LETTERS.text(free)[:before], "free until then"
    assert re.fullmatch(re.escape(word) + "<[0-9]{5}>", text[before:])
    for error in (0.0, 0.3):
        harness = drafted(target, [item], Oracle({PROMPT: truth}, error=error, full=True))
        assert harness.tokens[0] == truth
    never = Grammar('root ::= "a"', True, (Trigger(TriggerKind.TOKEN, "", CONTROL + 1000),))
    assert plain(target, want(never, count=80)) == free


def test_an_answer_goes_on_in_its_grammar_after_words_were_put_into_its_mouth(target: Target) -> None:
    grammar = Grammar('root ::= "think: " [a-z]{4} "; " [0-9]{4}')
    said = LETTERS.encode("think: abcd; 1")
    harness = Harness(target, None, ENDS, GRAMMARS)
    prompt = (*PROMPT, *said)
    harness.engine.tick(Plan(join=(Join(9, 0, prompt, 0, WARM, grammar=grammar, answered=len(said)),)))
    harness.engine.tick(Plan(prefill=(PrefillWork(9, len(prompt) - 1),)))
    tokens: list[int] = []
    while not set(tokens) & ENDS:
        tokens += [t for outcome in harness.engine.tick(Plan(step=(StepWork(9, 30),))) for t in outcome.tokens]
    harness.engine.tick(Plan(release=(Release(9, 0),)))
    assert re.fullmatch("[0-9]{3}", LETTERS.text(tokens))


def test_a_grammar_that_the_vocabulary_cannot_spell_ends_its_own_row_only(target: Target) -> None:
    company = Wanted((50, 51), 40, GREEDY)
    truth = plain(target, company)
    for drafter in (Oracle({company.prompt: truth}, error=0.0), Oracle({}, error=0.0)):
        harness = drafted(target, [want('root ::= "ab" "☃"'), company], drafter)
        assert harness.tokens[1] == truth
        assert isinstance(harness.errors[0], ServerFault)
        assert str(harness.errors[0]).startswith("the grammar allows no further token")
        assert [outcome.off for outcome in harness.outcomes if outcome.id == 1][-1] is None, "the other one drafts on"


def test_a_bad_grammar_ends_its_request_with_llama_servers_words(target: Target) -> None:
    harness = Harness(target, None, ENDS, GRAMMARS)
    harness.run([want("root ::= (")])
    assert isinstance(harness.errors[0], InvalidRequest)
    assert str(harness.errors[0]) == "Failed to initialize samplers: failed to parse grammar"
    without = Harness(target, None, ENDS)
    without.run([want('root ::= "a"')])
    assert isinstance(without.errors[0], ServerFault)
