"""What the command line says about drafting: which kind, if any, within which limits, under which rule."""

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.acceptance.select import Setting
from stoker.core.counters import Kind
from stoker.core.errors import StartError
from stoker.options import readers

SPEC_TYPES = (
    *("none", "draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark"),
    *("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"),
)
"""llama-server's kinds (spec/llama-server-options.md)."""

BUILT = {"draft-simple": Kind.DRAFT_MODEL, "ngram-simple": Kind.PROMPT_LOOKUP}
"""Its names of the kinds that can draft."""

AUTO, NONE = "auto", "none"
DRAFT_KINDS = (AUTO, NONE, *(kind.value for kind in Kind), "internal-mtp")
EXACTNESS = ("bitwise", "decided", "off")

LOOKUP_MOST = 7
LOOKUP_NGRAM = (3, 2)
"""Longest and shortest n-gram that is looked up, in tokens (spec/drafters.md, section 14)."""

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_PREFIXES = ("STOKER_", "MLXCEL_")
"""Of the two variables that may say the same, the first one counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """The server's drafter and how it is used. Without a `kind` nothing drafts; the rest holds all the same."""

    kind: Kind | None = None
    model: str = ""
    """Path of the draft model; empty unless `kind` needs one and a path was given."""
    repo: str = ""
    """The Hugging Face repository that holds it otherwise."""
    most: int = 3
    """Proposals that a round may hold."""
    least: int = 0
    """A shorter list of proposals is not verified."""
    p_min: float = 0.0
    """A draft model stops where its own token is less probable than this."""
    ngram_max: int = LOOKUP_NGRAM[0]
    ngram_min: int = LOOKUP_NGRAM[1]
    min_hits: int = 1
    """Occurrences that an n-gram must have to be followed."""
    adaptive: bool = True
    """False: prompt lookup ignores the floor under its yield."""
    rule: Setting = Setting.MATCH
    coupled: bool = True
    """Target and drafter draw with the same noise."""
    diagnostic: bool = False
    """The closed forms of acceptance are computed and logged, which costs time."""
    exactness: str = "decided"
    """What a forward of several columns must reach to be used: `bitwise`, `decided`, or `off` for nothing."""

    @property
    def types(self) -> str:
        """`speculative.types` in llama-server's words."""
        names = [name for name, kind in BUILT.items() if kind is self.kind]
        return ",".join([NONE, *names])

    def about(self) -> dict[str, object]:
        """The `stoker` object of `/props`, as far as the command line knows it."""
        return {
            "draft_kind": self.kind,
            "accept_rule": self.rule,
            "draft_coupling": self.coupled,
            "exactness": {"wanted": self.exactness},
        }


def read_spec_types(text: str) -> tuple[str, ...]:
    """The value of `--spec-type`: kinds in order, none of them where `none` is among them."""
    names = readers.comma_list(text)
    if unknown := [name for name in names if name not in SPEC_TYPES]:
        raise StartError(f"--spec-type: unknown speculative type: {unknown[0]}")
    return () if NONE in names else names


def choose(draft_kind: str, spec_types: tuple[str, ...] | None, *, has_model: bool) -> Kind | None:
    """The one kind that was asked for. StartError where it is not built, or where two things contradict each other.

    `spec_types` None: nothing was said; empty: `none` was. A draft model alone asks to be used.
    """
    if draft_kind == NONE:
        return None
    asked = [] if draft_kind == AUTO else [("--draft-kind", draft_kind, _kind(draft_kind))]
    asked += [("--spec-type", name, _built(name)) for name in spec_types or ()]
    if spec_types == () and asked:
        raise StartError(f"--draft-kind {draft_kind} and --spec-type none contradict each other: give one of them")
    if not asked:
        return Kind.DRAFT_MODEL if has_model and spec_types is None else None
    option, name, kind = asked[0]
    for other in asked[1:]:
        if other[2] is not kind:
            raise StartError(f"{option} {name} and {other[0]} {other[1]} are two drafters: choose one")
    if kind is Kind.DRAFT_MODEL and not has_model:
        raise StartError(f"{option} {name} needs a draft model: give --draft-model (-md) or --spec-draft-hf")
    if kind is Kind.PROMPT_LOOKUP and has_model:
        raise StartError(f"{option} {name} drafts without a model: leave --draft-model (-md) and --spec-draft-hf out")
    return kind


def variable(environ: Mapping[str, str], name: str) -> bool | None:
    """What `STOKER_name` says, else `MLXCEL_name`; None where neither is set. StartError for any other word."""
    said = [_flag(prefix + name, environ[prefix + name]) for prefix in _PREFIXES if prefix + name in environ]
    return said[0] if said else None


def _flag(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise StartError(f"{name} takes {', '.join(_TRUE)} or {', '.join(_FALSE)}, not {text!r}")
    return word in _TRUE


def _kind(name: str) -> Kind:
    if name not in set(BUILT.values()):
        raise StartError(
            f"--draft-kind cannot be honoured: {name} is not built yet; {' and '.join(BUILT.values())} are"
        )
    return Kind(name)


def _built(name: str) -> Kind:
    if name not in BUILT:
        raise StartError(f"--spec-type cannot be honoured: {name} is not built yet; {' and '.join(BUILT)} are")
    return BUILT[name]
