"""A GGUF file's vocabulary as a tokenizer of the `tokenizers` library.

Two kinds are read: byte-level BPE (`gpt2`) and SentencePiece's BPE (`llama`), whose merges are
found again from its scores.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import cast

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, processors
from tokenizers.models import BPE

from stoker.core.errors import StartError
from stoker.text import pretokenizers
from stoker.text.fim import KEYS as FIM_KEYS

SPACE = "▁"
KEY = "tokenizer.ggml."


class TokenType(IntEnum):
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


SPECIAL = frozenset({TokenType.CONTROL, TokenType.UNKNOWN})
"""Found in text only where special text is parsed, hidden where it is not rendered."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    texts: tuple[str, ...]
    types: tuple[int, ...]
    scores: tuple[float, ...]
    merges: tuple[str, ...]
    byte_level: bool
    """True: texts of normal tokens spell bytes as GPT-2 does; False: SentencePiece's spelling."""
    pre: str
    bos: int | None
    eos: int | None
    unknown: int | None
    declared_ends: frozenset[int]
    declared_fim: Mapping[str, int | None]
    """By the keys of `fim.KEYS`."""
    adds_bos: bool
    adds_eos: bool
    adds_space: bool

    @property
    def ids(self) -> dict[str, int]:
        return {text: id for id, text in enumerate(self.texts)}


def read(metadata: Mapping[str, object]) -> Vocabulary:
    """Raises StartError if the file has no vocabulary or one of another kind."""
    kind = metadata.get(f"{KEY}model")
    if kind not in ("gpt2", "llama"):
        raise StartError(f"tokenizer.ggml.model {kind!r} is not supported; supported are gpt2 (BPE) and llama (SPM)")
    texts = cast("list[str]", metadata.get(f"{KEY}tokens") or [])
    if not texts:
        raise StartError("the file holds no vocabulary (tokenizer.ggml.tokens)")
    byte_level = kind == "gpt2"
    eos = _id(metadata, "eos", len(texts), None if byte_level else 2)
    pre = str(metadata.get(f"{KEY}pre", "default"))
    return Vocabulary(
        texts=tuple(text or f"[EMPTY_{id}]" for id, text in enumerate(texts)),
        types=tuple(int(type) for type in _column(metadata, "token_type", len(texts), TokenType.NORMAL)),
        scores=_column(metadata, "scores", len(texts), 0.0),
        merges=tuple(cast("list[str]", metadata.get(f"{KEY}merges") or [])),
        byte_level=byte_level,
        pre=pre,
        bos=_id(metadata, "bos", len(texts), None if byte_level else 1),
        eos=eos,
        unknown=_id(metadata, "unknown", len(texts), None if byte_level else 0),
        declared_ends=_ends(metadata, len(texts), eos),
        declared_fim={key: _id(metadata, key, len(texts), None) for key in FIM_KEYS.values()},
        adds_bos=_flag(metadata, "add_bos_token", pretokenizers.rule(pre).adds_bos if byte_level else True),
        adds_eos=_flag(metadata, "add_eos_token", False),
        adds_space=not byte_level and _flag(metadata, "add_space_prefix", True),
    )


def build(vocabulary: Vocabulary) -> Tokenizer:
    """A tokenizer that cuts, merges, adds BOS and decodes as llama.cpp does with this vocabulary."""
    tokenizer = _byte_level(vocabulary) if vocabulary.byte_level else _sentencepiece(vocabulary)
    special = [AddedToken(text, normalized=False) for text in _of(vocabulary, SPECIAL)]
    defined = [AddedToken(text, normalized=False) for text in _of(vocabulary, {TokenType.USER_DEFINED})]
    tokenizer.add_special_tokens(special)  # pyright: ignore[reportUnknownMemberType]
    tokenizer.add_tokens(defined)  # pyright: ignore[reportUnknownMemberType]
    if processor := _post_processor(vocabulary):
        tokenizer.post_processor = processor
    return tokenizer


def _of(vocabulary: Vocabulary, types: Collection[int]) -> list[str]:
    return [text for text, type in zip(vocabulary.texts, vocabulary.types, strict=True) if type in types]


def _byte_level(vocabulary: Vocabulary) -> Tokenizer:
    rule = pretokenizers.rule(vocabulary.pre)
    if not vocabulary.merges:
        raise StartError("the file holds no merges (tokenizer.ggml.merges)")
    try:
        merges = [_pair(merge) for merge in vocabulary.merges]
        model = BPE(vocab=vocabulary.ids, merges=merges, ignore_merges=rule.whole_words)
    except Exception as error:  # the library raises nothing more precise
        raise StartError(f"the file's merges (tokenizer.ggml.merges) cannot be used: {error}") from error
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pretokenizers.splitter(rule)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _pair(merge: str) -> tuple[str, str]:
    # A merge's left half may itself begin with a space.
    at = merge.index(" ", 1)
    return merge[:at], merge[at + 1 :]


def _sentencepiece(vocabulary: Vocabulary) -> Tokenizer:
    unknown = None if vocabulary.unknown is None else vocabulary.texts[vocabulary.unknown]
    merges = _merges_by_score(vocabulary)
    tokenizer = Tokenizer(
        BPE(vocab=vocabulary.ids, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    spaces = normalizers.Replace(" ", SPACE)
    strip = []
    if vocabulary.adds_space:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces])
        strip = [decoders.Strip(" ", 1, 0)]
    else:
        tokenizer.normalizer = spaces
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return tokenizer


def _merges_by_score(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """SentencePiece merges the pair whose result has the highest score, so the scores rank the merges."""
    rows = zip(vocabulary.texts, vocabulary.types, vocabulary.scores, strict=True)
    normal = {text: score for text, type, score in rows if type == TokenType.NORMAL}
    merges: list[tuple[str, str]] = []
    for text in sorted(normal, key=lambda text: -normal[text]):
        for at in range(1, len(text)):
            left, right = text[:at], text[at:]
            if left in normal and right in normal:
                merges.append((left, right))
    return merges


def _post_processor(vocabulary: Vocabulary) -> processors.PostProcessor | None:
    before = [vocabulary.bos] if vocabulary.adds_bos and vocabulary.bos is not None else []
    after = [vocabulary.eos] if vocabulary.adds_eos and vocabulary.eos is not None else []
    if not before and not after:
        return None
    names = [(vocabulary.texts[id], id) for id in dict.fromkeys([*before, *after])]
    first = [*(vocabulary.texts[id] for id in before), "$A", *(vocabulary.texts[id] for id in after)]
    second = [*(vocabulary.texts[id] for id in before), "$B", *(vocabulary.texts[id] for id in after)]
    pair = [f"{item}:1" for item in second]
    return processors.TemplateProcessing(single=first, pair=[*first, *pair], special_tokens=names)


def _column(metadata: Mapping[str, object], name: str, count: int, default: float) -> tuple[float, ...]:
    values = cast("list[float]", metadata.get(f"{KEY}{name}") or [])
    if values and len(values) < count:
        raise StartError(f"tokenizer.ggml.{name} has {len(values)} entries for {count} tokens")
    return tuple(values[:count]) or (default,) * count


def _id(metadata: Mapping[str, object], name: str, count: int, default: int | None) -> int | None:
    value = metadata.get(f"{KEY}{name}_token_id", default)
    return value if isinstance(value, int) and 0 <= value < count else None


def _flag(metadata: Mapping[str, object], name: str, default: bool) -> bool:
    return bool(metadata.get(f"{KEY}{name}", default))


def _ends(metadata: Mapping[str, object], count: int, eos: int | None) -> frozenset[int]:
    named = ("eot", "eom", "fim_pad", "fim_rep", "fim_sep")
    found = {eos, *(_id(metadata, name, count, None) for name in named)}
    return frozenset(id for id in found if id is not None)
