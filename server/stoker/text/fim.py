"""Fill-in-the-middle tokens, found in the model's files or by the texts that llama.cpp knows (src/llama-vocab.cpp)."""

from collections.abc import Mapping
from dataclasses import dataclass

TEXTS: Mapping[str, tuple[str, ...]] = {
    "prefix": (
        "<|fim_prefix|>",
        "<fim-prefix>",
        "<fim_prefix>",
        "<｜fim▁begin｜>",
        "<PRE>",
        "▁<PRE>",
        "<|code_prefix|>",
    ),
    "suffix": (
        "<|fim_suffix|>",
        "<fim-suffix>",
        "<fim_suffix>",
        "<｜fim▁hole｜>",
        "<SUF>",
        "▁<SUF>",
        "<|code_suffix|>",
    ),
    "middle": ("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>"),
    "repository": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "file": ("<|file_sep|>",),
}
"""Of each the first that exists counts."""
KEYS = {"prefix": "fim_pre", "suffix": "fim_suf", "middle": "fim_mid", "repository": "fim_rep", "file": "fim_sep"}
"""A GGUF file's names for them, between `tokenizer.ggml.` and `_token_id`."""


@dataclass(frozen=True, slots=True)
class FimTokens:
    """None: the vocabulary has no such token."""

    prefix: int | None = None
    suffix: int | None = None
    middle: int | None = None
    repository: int | None = None
    """Begins the context of a whole repository."""
    file: int | None = None
    """Begins a file of it."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of those without which nothing can be filled in."""
        needed = {"prefix": self.prefix, "suffix": self.suffix, "middle": self.middle}
        return tuple(name for name, id in needed.items() if id is None)


def find(ids: Mapping[str, int], declared: Mapping[str, int | None]) -> FimTokens:
    """`ids` are the vocabulary's texts; `declared` are the tokens that the model's files name, as in `KEYS`."""
    return FimTokens(
        **{
            name: declared.get(key) if declared.get(key) is not None else _first(ids, TEXTS[name])
            for name, key in KEYS.items()
        }
    )


def _first(ids: Mapping[str, int], texts: tuple[str, ...]) -> int | None:
    return next((ids[text] for text in texts if text in ids), None)
