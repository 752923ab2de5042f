"""Text to token ids and back, as llama-server does it. Knows no model.

The `tokenizers` library cuts and merges. The bytes of every token are a table built once, so that
rendering generated text costs one look-up a token.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import tokenizers

from stoker.core.info import TokenizerSource
from stoker.text import fim, gguf_tokenizer, pieces
from stoker.text.directory_tokenizer import read_directory
from stoker.text.endings import end_ids
from stoker.text.fim import FimTokens
from stoker.text.gguf_tokenizer import SPECIAL, TokenType, Vocabulary


@dataclass(frozen=True)
class Tokenizer:
    """Thread-safe: nothing changes after construction."""

    engine: tokenizers.Tokenizer
    pieces: list[bytes]
    """Bytes of every token, specials rendered."""
    hidden: frozenset[int]
    """Control and unknown tokens: no text unless specials are rendered."""
    bos: int | None
    eos: int | None
    end_ids: frozenset[int]
    """Tokens that end an answer."""
    adds_bos: bool
    fim: FimTokens
    """Those around a gap that is to be filled."""

    @property
    def vocab(self) -> int:
        return len(self.pieces)

    @property
    def bos_text(self) -> str:
        return "" if self.bos is None else self.pieces[self.bos].decode("utf-8", "replace")

    @property
    def eos_text(self) -> str:
        return "" if self.eos is None else self.pieces[self.eos].decode("utf-8", "replace")

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """`add_special` puts BOS (and EOS) where the model wants them; without `parse_special`
        the text of a control token is plain text."""
        engine = self.engine if parse_special else self._plain
        return engine.encode(text, add_special_tokens=add_special).ids

    def piece(self, id: int, *, special: bool = True) -> bytes:
        """Bytes of one token, which may be a part of a character. Raises IndexError outside the vocabulary."""
        if id < 0:
            raise IndexError(f"token {id} is outside the vocabulary")
        return self.pieces[id] if special or id not in self.hidden else b""

    def decode(self, ids: Iterable[int], *, special: bool = True) -> bytes:
        """The tokens' bytes one after the other: like llama-server, a leading space stays."""
        return b"".join([self.piece(id, special=special) for id in ids])

    @cached_property
    def _plain(self) -> tokenizers.Tokenizer:
        """The same tokenizer, sharing its vocabulary, that does not look for special tokens in text."""
        twin = tokenizers.Tokenizer(self.engine.model)
        if self.engine.normalizer is not None:
            twin.normalizer = self.engine.normalizer
        if self.engine.pre_tokenizer is not None:
            twin.pre_tokenizer = self.engine.pre_tokenizer
        added = self.engine.get_added_tokens_decoder()
        # In the order of their ids: those outside the vocabulary are numbered as they come.
        in_order = [added[id] for id in sorted(added)]
        twin.add_tokens(in_order)  # pyright: ignore[reportUnknownMemberType]
        if self.engine.post_processor is not None:
            twin.post_processor = self.engine.post_processor
        twin.encode_special_tokens = True
        return twin


def from_source(source: TokenizerSource) -> Tokenizer:
    """Raises StartError if the source holds no tokenizer that is supported."""
    return from_directory(source) if isinstance(source, Path) else from_gguf(source)


def from_gguf(metadata: Mapping[str, object]) -> Tokenizer:
    """Raises StartError for a vocabulary that is missing, damaged or of a kind that is not supported."""
    vocabulary = gguf_tokenizer.read(metadata)
    ends = end_ids(vocabulary.ids, vocabulary.declared_ends)
    controls = frozenset(id for id, type in enumerate(vocabulary.types) if type in SPECIAL)
    return Tokenizer(
        engine=gguf_tokenizer.build(vocabulary),
        pieces=[_gguf_piece(vocabulary, id) for id in range(len(vocabulary.texts))],
        # A token that ends answers is never shown, whatever type the file gives it.
        hidden=controls | ends,
        bos=vocabulary.bos,
        eos=vocabulary.eos,
        end_ids=ends,
        adds_bos=vocabulary.adds_bos and vocabulary.bos is not None,
        fim=fim.find(vocabulary.ids, vocabulary.declared_fim),
    )


def _gguf_piece(vocabulary: Vocabulary, id: int) -> bytes:
    text, type = vocabulary.texts[id], vocabulary.types[id]
    if type in SPECIAL or type == TokenType.USER_DEFINED:
        return text.encode("utf-8", "replace")
    if type == TokenType.NORMAL:
        return pieces.byte_level(text) if vocabulary.byte_level else pieces.sentencepiece(text)
    if type == TokenType.BYTE and not vocabulary.byte_level:
        return pieces.sentencepiece(text)
    return b""


def from_directory(path: Path) -> Tokenizer:
    """From tokenizer.json and the small files beside it. Raises StartError if they are missing or damaged."""
    found = read_directory(path)
    spell = pieces.byte_level if found.byte_level else pieces.sentencepiece
    table = [b""] * found.vocab
    for text, id in found.ids.items():
        table[id] = text.encode("utf-8", "replace") if id in found.added else spell(text)
    ends = end_ids(found.ids, found.declared_ends)
    return Tokenizer(
        engine=found.engine,
        pieces=table,
        hidden=found.special | ends,
        bos=found.bos,
        eos=found.eos,
        end_ids=ends,
        adds_bos=found.adds_bos,
        fim=fim.find(found.ids, {}),
    )
