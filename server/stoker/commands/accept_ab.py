"""`stoker accept-ab`: measures each acceptance rule against its closed form, with a draft model made on the spot.

The draft model is the target's own first two thirds of layers (`stoker convert --layers`), so the default
model is all that it takes. Prints a Markdown table; the exit status is 1 if anything is out of place.
"""

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tqdm import tqdm

from stoker.commands.accept_ab_arms import ERRORS, Course, Measured, compare, steps
from stoker.commands.convert import convert
from stoker.commands.offline_model import exact_widths, parts
from stoker.core.counters import Kind
from stoker.models import fetch
from stoker.models.load import Loaded, load
from stoker.models.target import Target
from stoker.options.drafting import Drafting
from stoker.text.template import ChatTemplate
from stoker.text.tokenizer import Tokenizer, from_source

PROMPTS = (
    "Describe a walk through a harbour town at dawn.",
    "Explain to a child why the sky is blue.",
    "Write a Python function that counts the words of a text.",
    "What should one consider before buying a used bicycle?",
    "Tell a short story about a clock that runs backwards.",
    "Summarise how bread is made, in numbered steps.",
    "Compare trains and planes for a journey of 500 km.",
    "Give three pieces of advice for learning a language.",
)
HEAD = (
    "| T | arm | rule | proposals | tested | sum_min | sum_prod | coupled | ratio | expected | measured | off by |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-m",
        "--model",
        default="",
        metavar="PATH",
        help="GGUF file or model directory (default: SmolLM2-135M-Instruct)",
    )
    add("-n", "--predict", type=int, default=64, metavar="N", help="tokens an answer (default: %(default)s)")
    add("--num-draft-tokens", type=int, default=2, metavar="N", help="proposals a round (default: %(default)s)")
    add("--seed", type=int, default=1234, help="of the first row; the others follow (default: %(default)s)")


def run(arguments: argparse.Namespace, environ: Mapping[str, str] = MappingProxyType({})) -> int:
    """1 if a rate is out of its closed form's reach, or an arm is not what it should be."""
    cache = fetch.cache_directory(environ)
    path = Path(arguments.model).expanduser() if arguments.model else fetch.default_model(cache)
    loaded = load(str(path))
    tokenizer = from_source(loaded.tokenizer)
    prompts = _encoded(tokenizer, loaded.template)
    context = max(map(len, prompts)) + arguments.predict
    target = Target(loaded.model, len(prompts), context)
    drafting = Drafting(kind=Kind.DRAFT_MODEL, model=str(_draft(path, loaded, cache)), most=arguments.num_draft_tokens)
    widths = exact_widths(loaded, target, drafting, cache)
    course = Course(
        parts(target, tokenizer, drafting), prompts, arguments.predict, widths, drafting.most, seed=arguments.seed
    )
    with tqdm(total=steps(course), desc="arms", file=sys.stderr, disable=None) as bar:
        report = compare(course, bar.update)
    print("\n".join(table(report.measured)))
    for fault in report.faults:
        print(f"FAULT: {fault}")
    if not report.faults:
        print(f"every rate within {ERRORS:g} standard errors; equal and greedy at temperature 0; stochastic repeats")
    return 1 if report.faults else 0


def table(measured: Sequence[Measured]) -> list[str]:
    """Markdown: ratio is sum_min / sum_prod, `off by` is in standard errors of the expected rate."""
    return [*HEAD, *map(_line, measured)]


def _line(it: Measured) -> str:
    mean = it.averages.mean
    ratio = mean.sum_min / mean.sum_prod if mean.sum_prod else float("inf")
    cells = (
        f"{it.temperature:g}",
        it.arm.name,
        str(it.run.rule),
        str(it.run.proposals),
        str(it.counters.tested),
        *(f"{value:.4f}" for value in (mean.sum_min, mean.sum_prod, mean.coupled)),
        f"{ratio:.2f}",
        f"{it.expected:.4f} ± {it.error:.4f}",
        f"{it.averages.measured:.4f}",
        f"{it.deviation:+.1f}",
    )
    return f"| {' | '.join(cells)} |"


def _encoded(tokenizer: Tokenizer, template: str | None) -> list[tuple[int, ...]]:
    chat = ChatTemplate(template, tokenizer.bos_text, tokenizer.eos_text)
    texts = [chat.render([{"role": "user", "content": prompt}]) for prompt in PROMPTS]
    return [tuple(tokenizer.encode(text, add_special=True, parse_special=True)) for text in texts]


def _draft(path: Path, loaded: Loaded, cache: Path) -> Path:
    """The directory of the target's first two thirds of layers, made once."""
    layers = 2 * int(loaded.config["num_hidden_layers"]) // 3
    place = cache / "accept-ab" / f"{path.stem}-{loaded.info.size}-{layers}-layers"
    if not (place / "tokenizer.json").exists():
        half_done = place.with_name(place.name + ".part")
        shutil.rmtree(half_done, ignore_errors=True)
        convert(str(path), half_done, layers=layers, packed=True)
        half_done.replace(place)
    return place
