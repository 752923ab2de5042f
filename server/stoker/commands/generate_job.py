"""What `stoker generate` is asked to do, and which drafter that means. Decided before anything is loaded."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stoker.acceptance.select import Setting
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.core.request import Sampling
from stoker.models import detect
from stoker.options import drafting
from stoker.options.drafting import AUTO, Drafting

log = logging.getLogger(__name__)

SERVED = ("internal-mtp", Kind.MTP, Kind.DFLASH, Kind.GLIMMER, Kind.DSPARK)
"""Kinds whose round loop needs the target's hidden states: the server runs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    prompt: str
    model: str = ""
    """Path of the target; empty: the default model."""
    chat: bool = True
    """False: the prompt goes to the model as it is, without the chat template."""
    count: int = -1
    """Tokens; -1: until an end token or a full context."""
    sampling: Sampling = field(default_factory=Sampling)
    draft_model: str = ""
    draft_kind: str = AUTO
    prompt_lookup: bool = False
    draft_tokens: int | None = None
    """Proposals of a round; None: the kind's default; 0: none."""
    rule: Setting | None = None
    """None: the environment decides."""
    coupled: bool = True
    exactness: str = "decided"


@dataclass(frozen=True, slots=True)
class Resolved:
    """The drafter of a run: `drafting.kind` None if nothing drafts."""

    drafting: Drafting
    origin: str
    """Where the number of proposals comes from: default or flag."""
    detected: bool
    """True: nobody named the kind."""

    @property
    def lines(self) -> tuple[str, ...]:
        """What is printed before the run."""
        kind = self.drafting.kind
        if kind is None:
            return ()
        resolved = f"Resolved drafter kind: {kind} (block_size = {self.drafting.most}, {self.origin})"
        if not self.detected:
            return (resolved,)
        return (
            resolved,
            f"Drafter kind was auto-detected only; running the {kind} round loop "
            "(block drafters and MTP run in stoker-server).",
        )


def resolve(job: Job, stochastic: bool | None, environ: Mapping[str, str]) -> Resolved:
    """Raises StartError, one line, for a drafter that this command cannot run."""
    _refuse_served(job)
    kind = drafting.choose(_asked(job), None, has_model=bool(job.draft_model))
    default = drafting.LOOKUP_MOST if kind is Kind.PROMPT_LOOKUP else Drafting().most
    most = default if job.draft_tokens is None else job.draft_tokens
    chosen = Drafting(
        kind=kind if most else None,
        model=job.draft_model,
        most=most,
        rule=choose_rule(stochastic, job.rule, environ),
        coupled=job.coupled,
        diagnostic=bool(drafting.variable(environ, "SPECULATIVE_ACCEPT_DIAG")),
        exactness=job.exactness,
    )
    detected = job.draft_kind == AUTO and kind is Kind.DRAFT_MODEL
    return Resolved(chosen, "default" if job.draft_tokens is None else "flag", detected)


def choose_rule(stochastic: bool | None, flag: Setting | None, environ: Mapping[str, str]) -> Setting:
    """The argument, else the flag, else STOKER_SPECULATIVE_STOCHASTIC_ACCEPT, else MLXCEL's, else sampler-match."""
    if stochastic is None and flag is not None:
        return flag
    said = drafting.variable(environ, "SPECULATIVE_STOCHASTIC_ACCEPT") if stochastic is None else stochastic
    return Setting.STOCHASTIC if said else Setting.MATCH


def _asked(job: Job) -> str:
    """The kind by name, `--prompt-lookup` being one more way to say it."""
    if not job.prompt_lookup:
        return job.draft_kind
    if job.draft_kind not in (AUTO, Kind.PROMPT_LOOKUP):
        raise StartError(f"--prompt-lookup and --draft-kind {job.draft_kind} are two drafters: choose one")
    return Kind.PROMPT_LOOKUP


def _refuse_served(job: Job) -> None:
    """Ends where the drafter is one that only the server can run: by its name, or by what its checkpoint is."""
    if job.draft_kind in SERVED:
        raise StartError(
            f"--draft-kind {job.draft_kind}: stoker generate has no {job.draft_kind} round loop; "
            "stoker-server runs it, with the same --draft-kind and --draft-model"
        )
    if not job.draft_model:
        return
    found = detect.inspect(Path(job.draft_model).expanduser())
    if not found.standalone:
        raise StartError(
            f"--draft-model {job.draft_model} is a {found.kind} drafter ({found.evidence}), which stoker generate "
            "cannot run: stoker-server does, with the same --draft-model"
        )
    log.info("drafter kind detected: %s for %s (%s)", Kind.DRAFT_MODEL, job.draft_model, found.evidence)
