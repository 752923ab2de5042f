"""The trained drafters for SmolLM2 on 40 held-out prompts, against what their makers recorded (`heldout.jsonl`).

The recordings' target had its Q4_1 weights unpacked in float16 and then widened; ours unpacks in
float32, which flips a token in five of the 40 answers. So the target here is made as theirs was.
Their first round stands behind the first token, ours behind the prompt: the prompt gets that token.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import pytest
from mlx_lm.utils import dequantize_model

from rounds.drafters import how
from rounds.harness import GREEDY, Harness, Wanted
from stoker.models import shipped
from stoker.models.load import load
from stoker.models.target import Target
from stoker.rounds import dflash, dspark
from stoker.rounds.block import BlockDrafter
from stoker.text.template import ChatTemplate
from stoker.text.tokenizer import Tokenizer, from_source

pytestmark = [pytest.mark.mlx, pytest.mark.smollm2]

Prompt = dict[str, Any]
PROMPTS: list[Prompt] = [
    json.loads(line) for line in (Path(__file__).parent / "heldout.jsonl").read_text().splitlines()
]
FEW = [next(prompt for prompt in PROMPTS if prompt["class"] == name) for name in ("code", "edit", "list")]
CLASSES = sorted({prompt["class"] for prompt in PROMPTS})
TRAINED = Path(__file__).parents[3] / "shared" / "drafters"
LOADERS = {"dflash": (dflash, "DFlash"), "dspark": (dspark, "DSpark")}
ROWS = 8


@dataclass(frozen=True)
class Model:
    target: Target
    tokenizer: Tokenizer
    template: ChatTemplate


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Model:
    loaded = load(str(smollm2_path), packed=True)
    model = dequantize_model(loaded.model)
    model.set_dtype(mx.float32)
    tokenizer = from_source(loaded.tokenizer)
    template = ChatTemplate(cast("str", loaded.template), tokenizer.bos_text, tokenizer.eos_text)
    return Model(Target(model, ROWS, 512), tokenizer, template)


@dataclass(frozen=True)
class Played:
    accepted: list[int]
    emitted: float
    """A round."""


def play(model: Model, drafter: BlockDrafter, prompts: Sequence[Prompt], most: int = 200) -> list[Played]:
    """Every prompt's rounds, as far as `most` tokens; the text must be the recorded one."""
    harness = Harness(model.target, how(drafter), ends=frozenset(model.tokenizer.end_ids))
    got = harness.run([Wanted(_ids(model, it), min(len(it["tokens"]) - 1, most), GREEDY) for it in prompts])
    played: list[Played] = []
    for id, prompt in enumerate(prompts):
        assert got[id] == prompt["tokens"][1 : most + 1], prompt["prompt"]
        rounds = [outcome for outcome in harness.outcomes if outcome.id == id and outcome.tokens]
        accepted = [outcome.round.accepted if outcome.round else 0 for outcome in rounds]
        played.append(Played(accepted, len(got[id]) / len(rounds)))
    return played


def _ids(model: Model, prompt: Prompt) -> tuple[int, ...]:
    text = model.template.render([{"role": "user", "content": prompt["prompt"]}])
    return (*model.tokenizer.encode(text, add_special=False, parse_special=True), prompt["tokens"][0])


def trained(kind: str, model: Model) -> BlockDrafter:
    loader, name = LOADERS[kind]
    path = TRAINED / f"SmolLM2-135M-Instruct-{name}"
    if not path.exists():
        pytest.skip("the trained drafters are not beside the repository")
    return loader.load(path, model.target)


def agreeing(kind: str, played: Sequence[Played], prompts: Sequence[Prompt]) -> float:
    """The share of rounds that accept what was recorded; an answer's last one may be cut."""
    pairs = [
        pair
        for mine, prompt in zip(played, prompts, strict=True)
        for pair in zip(mine.accepted[:-1], prompt[kind]["accepted"], strict=False)
    ]
    return sum(a == b for a, b in pairs) / len(pairs)


@pytest.mark.parametrize("kind", LOADERS)
def test_a_few_prompts_are_answered_and_drafted_as_recorded(kind: str, smollm2: Model) -> None:
    drafter = trained(kind, smollm2)
    assert agreeing(kind, play(smollm2, drafter, FEW, most=24), FEW) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("kind", LOADERS)
def test_all_prompts_are_answered_and_drafted_as_recorded(kind: str, name: str, smollm2: Model) -> None:
    prompts = [prompt for prompt in PROMPTS if prompt["class"] == name]
    played = play(smollm2, trained(kind, smollm2), prompts)
    assert agreeing(kind, played, prompts) >= 0.95
    mean = sum(mine.emitted for mine in played) / len(played)
    theirs = sum(prompt[kind]["emitted_per_round"] for prompt in prompts) / len(prompts)
    assert mean == pytest.approx(theirs, rel=0.02)


def test_the_shipped_drafter_answers_as_recorded_and_is_often_right(smollm2: Model) -> None:
    drafter = dspark.load(shipped.drafter(), smollm2.target)
    played = play(smollm2, drafter, FEW, most=24)
    assert sum(mine.emitted for mine in played) / len(played) > 2


@pytest.mark.slow
def test_the_shipped_drafter_keeps_97_percent_of_its_acceptance(smollm2: Model) -> None:
    drafter = dspark.load(shipped.drafter(), smollm2.target)
    played = [one for n in range(0, len(PROMPTS), ROWS) for one in play(smollm2, drafter, PROMPTS[n : n + ROWS])]
    recorded = sum(prompt["dspark"]["emitted_per_round"] for prompt in PROMPTS)
    assert sum(mine.emitted for mine in played) / recorded >= 0.97
