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

NAMES = {
    "draft-simple": Kind.DRAFT_MODEL,
    "ngram-simple": Kind.PROMPT_LOOKUP,
    "draft-mtp": Kind.MTP,
    "draft-dflash": Kind.DFLASH,
    "draft-dspark": Kind.DSPARK,
}
"""Its names of the kinds that can draft."""
BLOCK = (Kind.DFLASH, Kind.DSPARK, Kind.GLIMMER)
"""Kinds whose checkpoints look alike: whoever says `dflash` means what the checkpoint is."""
SHIPPED = Kind.DSPARK
"""What the drafter is that comes with the default model."""

AUTO, NONE, INTERNAL_MTP = "auto", "none", "internal-mtp"
DRAFT_KINDS = (AUTO, NONE, *(kind.value for kind in Kind), INTERNAL_MTP)
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
    auto: bool = False
    """True: the checkpoint says what it is, and `kind` is only what it is otherwise."""
    shipped: bool = False
    """True: the checkpoint is the one that comes with the default model."""
    model: str = ""
    """Path of the draft model; empty unless `kind` needs one and a path was given."""
    repo: str = ""
    """The Hugging Face repository that holds it otherwise."""
    most: int = 3
    """Proposals that a round may hold."""
    limited: bool = False
    """True: `most` was asked for; else a block drafter goes by its checkpoint."""
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
        names = [name for name, kind in NAMES.items() if kind is self.kind]
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


def choose(
    draft_kind: str, spec_types: tuple[str, ...] | None, *, has_model: bool, shipped: bool = False
) -> Kind | None:
    """The one kind that was asked for. StartError where two things contradict each other.

    `spec_types` None: nothing was said; empty: `none` was. A draft model alone asks to be used, and so does
    the one that comes with the default model, if that is what is served (`shipped`).
    """
    if draft_kind == NONE:
        return None
    asked = [] if draft_kind == AUTO else [("--draft-kind", draft_kind, _kind(draft_kind))]
    asked += [("--spec-type", name, _named(name)) for name in spec_types or ()]
    if spec_types == () and asked:
        raise StartError(f"--draft-kind {draft_kind} and --spec-type none contradict each other: give one of them")
    if not asked:
        return _unasked(has_model, shipped) if spec_types is None else None
    option, name, kind = asked[0]
    for other in asked[1:]:
        if other[2] is not kind:
            raise StartError(f"{option} {name} and {other[0]} {other[1]} are two drafters: choose one")
    if kind is Kind.PROMPT_LOOKUP and has_model:
        raise StartError(f"{option} {name} drafts without a model: leave --draft-model (-md) and --spec-draft-hf out")
    if kind in BLOCK and shipped:
        return _on_board(option, name, kind)
    if kind in (Kind.DRAFT_MODEL, *BLOCK) and not has_model:
        raise StartError(f"{option} {name} needs a draft model: give --draft-model (-md) or --spec-draft-hf")
    return kind


def _unasked(has_model: bool, shipped: bool) -> Kind | None:
    if has_model:
        return Kind.DRAFT_MODEL
    return SHIPPED if shipped else None


def _on_board(option: str, name: str, kind: Kind) -> Kind:
    if kind not in (Kind.DFLASH, SHIPPED):
        raise StartError(f"{option} {name}: the default model comes with a {SHIPPED} drafter; give --draft-model (-md)")
    return SHIPPED


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
    return Kind.MTP if name == INTERNAL_MTP else Kind(name)


def _named(name: str) -> Kind:
    if name not in NAMES:
        raise StartError(f"--spec-type cannot be honoured: {name} is not built; {', '.join(NAMES)} are")
    return NAMES[name]
