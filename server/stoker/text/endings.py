"""Which tokens end an answer, found by their text as llama.cpp finds them (src/llama-vocab.cpp)."""

from collections.abc import Mapping

TURN_ENDS = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
)
INFILL_ENDS = (
    ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    ("<|file_sep|>",),
)
"""Padding, repository and file separator of infill prompts; of each group the first that exists."""
CHANNEL_END, CHANNEL_MARKS = "<|end|>", ("<|return|>", "<|call|>")
"""Where both marks exist, `<|end|>` closes a channel and not the answer."""


def end_ids(ids: Mapping[str, int], declared: frozenset[int]) -> frozenset[int]:
    """`ids` are the vocabulary's texts; `declared` are the end tokens that the model's files name."""
    found = {ids[text] for text in TURN_ENDS if text in ids}
    for group in INFILL_ENDS:
        found.update([ids[text] for text in group if text in ids][:1])
    if CHANNEL_END in ids and all(mark in ids for mark in CHANNEL_MARKS):
        found.discard(ids[CHANNEL_END])
    return frozenset(found) | declared
