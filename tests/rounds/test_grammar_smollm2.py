"""Schemas on SmolLM2: ten random ones, every answer valid, drafting changes no token."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rounds.harness import WARM, Harness, Wanted
from rounds.oracle import Oracle
from rounds.test_grammar import lookup
from schemas import fits, random_schema
from stoker.core.request import Grammar
from stoker.models.load import load
from stoker.models.target import Target
from stoker.rounds.base import Drafter
from stoker.rounds.speculator import Speculation as How
from stoker.text.grammar import Grammars
from stoker.text.schema import of_schema
from stoker.text.tokenizer import from_source

pytestmark = [pytest.mark.mlx, pytest.mark.smollm2, pytest.mark.slow]

LONGEST = 400


def test_every_answer_is_valid_and_drafting_changes_nothing(smollm2_path: Path) -> None:
    loaded = load(str(smollm2_path))
    tokenizer = from_source(loaded.tokenizer)
    target, grammars = Target(loaded.model, 1, 1024), Grammars(tokenizer)
    prompt = tuple(tokenizer.encode("A record as JSON: ", add_special=False, parse_special=False))

    def run(item: Wanted, drafter: Drafter | None) -> Sequence[int]:
        how = How({drafter.kind: drafter}, drafter.kind) if drafter else None
        return Harness(target, how, tokenizer.end_ids, grammars).run([item])[0]

    for seed in range(10):
        schema = random_schema(random.Random(100 + seed))
        grammar = Grammar(of_schema(schema))
        item = Wanted(prompt, LONGEST, replace(WARM, seed=seed, top_p=0.95), grammar=grammar)
        plain = run(item, None)
        assert plain[-1] in tokenizer.end_ids, (seed, tokenizer.decode(plain))
        assert fits(json.loads(tokenizer.decode(plain[:-1])), schema)
        assert run(item, lookup()) == plain
        assert run(item, Oracle({prompt: plain}, vocab=tokenizer.vocab)) == plain
