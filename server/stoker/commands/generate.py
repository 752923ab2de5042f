"""`stoker generate`: one prompt, continued on standard output, with the server's own rounds and no server.

With a drafter it ends with the line that says what speculation did (docs/speculative-acceptance.md).
"""

import argparse
import logging
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from stoker.acceptance.closed_forms import Averages
from stoker.acceptance.proposals import proposals
from stoker.acceptance.select import Rule, Setting, select
from stoker.acceptance.summary import Run, diagnostic, fields, summary
from stoker.commands.generate_job import Job, Resolved, resolve
from stoker.commands.offline import Answer, Wish, play
from stoker.core.counters import DraftCounters
from stoker.core.errors import StartError
from stoker.core.request import MAX_SEED, Sampling
from stoker.models import detect, fetch
from stoker.options.drafting import AUTO, DRAFT_KINDS, EXACTNESS
from stoker.text.detokenizer import Detokenizer
from stoker.text.template import ChatTemplate
from stoker.text.tokenizer import Tokenizer

log = logging.getLogger(__name__)

Write = Callable[[str], object]

DEFAULT_ROOM = 4096
"""Tokens that an answer may have where neither the job nor the model knows a limit."""


@dataclass(frozen=True, slots=True)
class Generated:
    text: str
    tokens: tuple[int, ...]
    run: Run | None
    """None: nothing could have drafted."""
    counters: DraftCounters
    averages: Averages | None
    """Closed forms of what was tested; None unless the diagnostic was on."""

    @property
    def lines(self) -> tuple[str, ...]:
        """What is printed after a speculative run."""
        if self.run is None:
            return ()
        first = summary(self.run, self.counters)
        return (first,) if self.averages is None else (first, diagnostic(self.run, self.averages))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    usual = Sampling()
    add = parser.add_argument
    add("-p", "--prompt", required=True, help="what to continue or to answer")
    add(
        "-m",
        "--model",
        default="",
        metavar="PATH",
        help="GGUF file or model directory (default: SmolLM2-135M-Instruct)",
    )
    add("-n", "--predict", "--n-predict", type=int, default=-1, metavar="N", help="tokens; -1: until the end")
    add("--no-chat-template", dest="chat", action="store_false", help="give the prompt to the model as it is")
    add("--temp", "--temperature", dest="temperature", type=float, default=usual.temperature, help="0: greedy")
    add("--top-k", type=int, default=usual.top_k, help="0: off (default: %(default)s)")
    add("--top-p", type=float, default=usual.top_p, help="1: off (default: %(default)s)")
    add("--min-p", type=float, default=usual.min_p, help="0: off (default: %(default)s)")
    add("-s", "--seed", type=int, default=-1, help="-1: a random one")
    drafting = parser.add_argument_group("speculative decoding")
    add = drafting.add_argument
    add("--draft-model", "-md", default="", metavar="PATH", help="a smaller model with the same vocabulary")
    add("--prompt-lookup", action="store_true", help="propose what followed the last tokens before; needs no model")
    add("--num-draft-tokens", type=int, metavar="N", help="proposals a round (default: 3, prompt lookup 7)")
    add("--draft-kind", choices=DRAFT_KINDS, default=AUTO, help="what drafts (default: what was given)")
    add("--accept-rule", type=Setting, choices=list(Setting), help="how proposals are judged at temperature > 0")
    add("--draft-coupling", choices=("on", "off"), default="on", help="draw with the target's noise (default: on)")
    add("--exactness", choices=EXACTNESS, default="decided", help="what a wide forward must reach to be used")


def run(arguments: argparse.Namespace, environ: Mapping[str, str] = MappingProxyType({})) -> int:
    """Exit status. Raises StartError with one line."""

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    generated = generate(read_job(arguments), environ=environ, write=write)
    print("" if generated.text.endswith("\n") else "\n", end="")
    for line in generated.lines:
        print(line)
    return 0


def read_job(arguments: argparse.Namespace) -> Job:
    """The arguments as a job, with a seed. StartError for a number that makes none."""
    if arguments.predict < -1 or arguments.predict == 0:
        raise StartError(f"-n {arguments.predict}: give a number of tokens, or -1 for as many as there come")
    if arguments.num_draft_tokens is not None and arguments.num_draft_tokens < 0:
        raise StartError(f"--num-draft-tokens {arguments.num_draft_tokens} is less than nothing")
    seed = arguments.seed if arguments.seed >= 0 else secrets.randbelow(MAX_SEED)
    sampling = Sampling(
        seed=seed,
        temperature=max(arguments.temperature, 0.0),
        top_k=max(arguments.top_k, 0),
        top_p=arguments.top_p,
        min_p=arguments.min_p,
    )
    return Job(
        prompt=arguments.prompt,
        model=arguments.model,
        chat=arguments.chat,
        count=arguments.predict,
        sampling=sampling,
        draft_model=arguments.draft_model,
        draft_kind=arguments.draft_kind,
        prompt_lookup=arguments.prompt_lookup,
        draft_tokens=arguments.num_draft_tokens,
        rule=arguments.accept_rule,
        coupled=arguments.draft_coupling == "on",
        exactness=arguments.exactness,
    )


def generate(
    job: Job,
    *,
    stochastic: bool | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
    write: Write | None = None,
) -> Generated:
    """Continues the job's prompt; `write` hears the lines before the run and then the text as it comes.

    `stochastic` chooses modified rejection sampling, or not, whatever flag and environment say. `environ`
    is the process's environment, as far as it counts. Raises StartError, one line, before anything is loaded
    where the drafter cannot run here.
    """
    write = write or _nowhere
    resolved = resolve(job, stochastic, environ)
    cache = fetch.cache_directory(environ)
    path = Path(job.model).expanduser() if job.model else fetch.default_model(cache)
    detect.require_whole(path)
    for line in resolved.lines:
        write(f"{line}\n")
    return _run(job, resolved, path, cache, write)


def _run(job: Job, resolved: Resolved, path: Path, cache: Path, write: Write) -> Generated:
    # MLX is imported here, so that the command line's help does without it.
    from stoker.commands import offline_model
    from stoker.models.load import load
    from stoker.models.target import Target
    from stoker.text.tokenizer import from_source

    loaded = load(str(path))
    tokenizer = from_source(loaded.tokenizer)
    prompt = encode(job, tokenizer, loaded.template)
    wish = fitted(job, prompt, loaded.info.context)
    target = Target(loaded.model, 1, len(prompt) + wish.count)
    widths = offline_model.exact_widths(loaded, target, resolved.drafting, cache)
    parts = offline_model.parts(target, tokenizer, resolved.drafting)
    offline = offline_model.engine(parts, resolved.drafting, widths)
    voice = _Voice(tokenizer, write)
    log.info("seed %d, %d prompt tokens", job.sampling.seed, len(prompt))
    (answer,) = play(offline.engine, [wish], tokenizer.end_ids, voice.hear)
    judged = _judged(resolved, answer, job.sampling)
    if judged is not None:
        log.info("speculative decode finished: %s", fields(judged, answer.drafted.counters))
    averages = None if offline.diagnostic is None else offline.diagnostic.total
    return Generated(voice.text, tuple(answer.tokens), judged, answer.drafted.counters, averages)


def encode(job: Job, tokenizer: Tokenizer, template: str | None) -> tuple[int, ...]:
    """The prompt's tokens, as the server makes them of a chat with one message or of a completion."""
    text = job.prompt
    if job.chat:
        chat = ChatTemplate(template, tokenizer.bos_text, tokenizer.eos_text)
        text = chat.render([{"role": "user", "content": job.prompt}])
    ids = tuple(tokenizer.encode(text, add_special=True, parse_special=True))
    if not ids:
        raise StartError("the prompt holds no token: say something with -p")
    return ids


def fitted(job: Job, prompt: Sequence[int], trained: int) -> Wish:
    """The wish that fits the model's context of `trained` tokens; 0: its length is unknown. StartError if none does."""
    room = (trained or len(prompt) + max(job.count, DEFAULT_ROOM)) - len(prompt)
    if room <= 0:
        raise StartError(f"the prompt has {len(prompt)} tokens and the model's context {trained}: shorten the prompt")
    return Wish(tuple(prompt), room if job.count < 0 else min(job.count, room), job.sampling)


class _Voice:
    """Turns tokens into whole characters and passes them on."""

    def __init__(self, tokenizer: Tokenizer, write: Write) -> None:
        self._tokenizer, self._write = tokenizer, write
        self._detokenizer = Detokenizer()
        self.text = ""

    def hear(self, _: int, tokens: Sequence[int]) -> None:
        for token in tokens:
            text = self._detokenizer.push(self._tokenizer.piece(token, special=False))
            self.text += text
            self._write(text)


def _judged(resolved: Resolved, answer: Answer, sampling: Sampling) -> Run | None:
    """The rule that judged the run, or would have if anything had been proposed."""
    drafting = resolved.drafting
    if drafting.kind is None:
        return None
    chosen = select(drafting.kind, drafting.rule, greedy=sampling.greedy).rule
    rule = Rule(answer.drafted.rule or chosen or Rule.MATCH)
    return Run(rule, proposals(drafting.kind, rule, coupled=drafting.coupled))


def _nowhere(_: str) -> None:
    pass
