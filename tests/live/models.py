"""Tiny random models for a live server: of each family, with a vocabulary of all bytes, and long contexts.

Their greedy text soon runs in a circle, which prompt lookup then foresees.
"""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np

from gguf_samples import sample, write

END, START = 257, 256
VOCAB = 259
CONTEXT = 16384
WINDOW = 64
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

FAMILIES: dict[str, dict[str, object]] = {
    "llama": {"tie_word_embeddings": False},
    "gemma3": {"sliding_window": WINDOW},
    "lfm2": {},
}


def characters() -> list[str]:
    """GPT-2's stand-ins for the 256 bytes: a printable byte is itself, the others follow from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(code) if code in printable else chr(next(others)) for code in range(256)]


def vocabulary(end: int = END) -> Callable[[gguf.GGUFWriter], None]:
    """Every byte is a token, and so is " t", since the format wants a merge; `end` is the id of the end token."""

    def put(writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_list([*characters(), "<|im_start|>", "<|im_end|>", "Ġt"])
        writer.add_token_types([1] * 256 + [3, 3, 1])
        writer.add_token_merges(["Ġ t"])
        writer.add_bos_token_id(START)
        writer.add_eos_token_id(end)
        writer.add_chat_template(TEMPLATE)

    return put


def tiny(path: Path, family: str = "llama", *, end: int = END, nudge: float = 0.0, **changes: object) -> Path:
    """Writes the tiny random model of a family, always the same one but for noise of size `nudge` on its weights.

    `end` makes that token its end token; `changes` are of its configuration.
    """
    made = sample(family, **{"vocab_size": VOCAB, "max_position_embeddings": CONTEXT, **FAMILIES[family], **changes})
    random = np.random.default_rng(3)
    # Around zero: with the samples' common offset every text would be one token, again and again.
    made.weights = {
        name: weight - 0.1 + nudge * random.standard_normal(weight.shape, np.float32) if weight.ndim == 2 else weight
        for name, weight in made.weights.items()
    }
    return write(path, made, vocabulary=vocabulary(end))
