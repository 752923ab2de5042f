"""Counts the tokens that a model says: it answers made-up requests, many at a time. For a drafter's short head.

python tools/count_tokens.py MODEL OUT.npy --rows 64 --seconds 120

OUT.npy holds how often each token was said, int64 [V]. The requests are put together from tasks and topics;
half of the answers are greedy, half are drawn at temperature 0.8.
"""

# ruff: noqa: T201, E402  a script that prints, and OpenBLAS must be loaded before MLX
import argparse
import random
import sys
from pathlib import Path

from stoker import blas

print(blas.load().line, file=sys.stderr)

import mlx.core as mx
import numpy as np
from tqdm import tqdm

from stoker.core import clock
from stoker.models.load import Loaded, load
from stoker.models.target import Target
from stoker.text.template import ChatTemplate
from stoker.text.tokenizer import from_source

LONGEST = 384
WARMTH = 0.8

TOPICS = """
a garden, honey bees, the Roman Empire, volcanoes, sleep, a bicycle, inflation, the moon, a bakery, chess, trains,
climate, a hospital, the violin, vaccines, photosynthesis, elections, mountains, coffee, robots, a wedding, whales,
the internet, taxes, glass, football, bread, earthquakes, a lighthouse, memory, solar power, cats, gravity, islands,
the French Revolution, friendship, a library, antibiotics, rivers, painting, a job interview, diabetes, batteries,
dragons, the stock market, winter, a teacher, paper, DNA, a market in Morocco, noise, shoes
"""
THINGS = """
a list of numbers, a string, a dictionary of prices, a binary tree, a linked list, a matrix, a CSV file, a date,
a temperature in Celsius, an e-mail address, a queue, a bank account, a graph, a JSON object, a text file, a stack
"""
PROSE = (
    "Explain {} to a child.",
    "Write a short story about {}.",
    "Give me ten facts about {}.",
    "List the advantages and disadvantages of {}.",
    "Write a letter to a friend about {}.",
    "What should a beginner know about {}?",
    "Write a poem about {}.",
    "Summarise the history of {} in three paragraphs.",
    "Write a dialogue between two people who argue about {}.",
    "Make a plan for a week that has to do with {}.",
    "Name five common mistakes with {} and how to avoid them.",
    "Rewrite this in formal English: everybody knows that {} is kind of a big deal, right?",
)
CODE = (
    "Write a Python function that works on {} and returns the largest element.",
    "Write a JavaScript function that checks {}.",
    "Write a C program that reads {} and prints it in reverse.",
    "Write an SQL table for {} and three queries on it.",
    "Write a Java class for {}.",
    "Write an HTML page with a table about {}.",
    "Write unit tests for a function that sorts {}.",
    "Correct this code: def f(x) return x + 1 # for {}",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120.0)
    given = parser.parse_args()
    loaded = load(given.model)
    target = Target(loaded.model, given.rows, 1024)
    counts, rng, begun = np.zeros(target.vocab, np.int64), random.Random(0), clock.now()
    with tqdm(total=int(given.seconds), unit="s") as bar:
        while clock.now() - begun < given.seconds:
            _answers(loaded, target, rng, counts)
            np.save(given.out, counts)
            bar.n = int(clock.now() - begun)
            bar.set_postfix(tokens=int(counts.sum()), different=int((counts > 0).sum()))
    return 0


def _answers(loaded: Loaded, target: Target, rng: random.Random, counts: np.ndarray) -> None:
    """One answer in every slot, counted up to its end."""
    rows = target.slots
    tokenizer = from_source(loaded.tokenizer)
    template = ChatTemplate(loaded.template or "")
    said: list[mx.array] = []
    for slot in range(rows):
        prompt = tokenizer.encode(
            template.render([{"role": "user", "content": _request(rng)}]), add_special=False, parse_special=True
        )
        with target.verify([slot], mx.array([prompt], mx.int32)) as seen:
            seen.keep([len(prompt)])
            said.append(mx.argmax(seen.logits[:, -1:], axis=-1))
            mx.eval(said[-1], seen.state)
    tokens = mx.concatenate(said).astype(mx.int32)
    warm = mx.array([[[WARMTH if row % 2 else 0.0]] for row in range(rows)])
    open_rows = np.ones(rows, bool)
    for _ in range(LONGEST):
        now = np.array(tokens)[:, 0]
        open_rows &= ~np.isin(now, list(tokenizer.end_ids))
        if not open_rows.any():
            break
        np.add.at(counts, now[open_rows], 1)
        with target.verify(range(rows), tokens) as seen:
            noise = mx.random.gumbel(seen.logits.shape)
            tokens = mx.argmax(seen.logits.astype(mx.float32) + warm * noise, axis=-1).astype(mx.int32)
            seen.keep([1] * rows)
        mx.eval(tokens)
    for slot in range(rows):
        target.truncate(slot, 0)


def _request(rng: random.Random) -> str:
    if rng.random() < 0.6:
        return rng.choice(PROSE).format(_one_of(TOPICS, rng))
    return rng.choice(CODE).format(_one_of(THINGS if rng.random() < 0.7 else TOPICS, rng))


def _one_of(words: str, rng: random.Random) -> str:
    return rng.choice(words.replace("\n", " ").split(",")).strip()


if __name__ == "__main__":
    sys.exit(main())
