"""The tags around thoughts, known by the model's chat template (as llama-server and mlx-lm know them)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tags:
    open: str
    close: str
    ending: str = ""
    """What makes a model stop thinking; by default the closing tag."""

    @property
    def last_words(self) -> str:
        return self.ending or self.close


HARMONY = Tags(
    "<|channel|>analysis<|message|>", "<|end|>", ending="<|end|><|start|>assistant<|channel|>final<|message|>"
)
FAMILIES = (
    Tags("[THINK]", "[/THINK]"),  # Magistral, Ministral 3
    Tags("<|channel>thought", "<channel|>"),  # Gemma 4
    Tags("<seed:think>", "</seed:think>"),
    Tags("<longcat_think>", "</longcat_think>"),
    Tags("<|think:start|>", "<|think:end|>"),
    Tags("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    Tags("<|START_THINKING|>", "<|END_THINKING|>"),  # Command R7B
    Tags("<think>", "</think>"),  # DeepSeek-R1, Qwen3, SmolLM3, GLM, MiniMax, …
)


def find_tags(template: str) -> Tags | None:
    """The family whose tags the template writes or looks for; None where it has none."""
    if "<|channel|>" in template and "<|message|>" in template:
        return HARMONY
    return next((tags for tags in FAMILIES if tags.close in template or tags.open in template), None)


def opens_at_end(prompt: str, tags: Tags) -> bool:
    """Whether a prompt stops right behind the tag that opens a thought, so that the answer begins inside it."""
    return prompt.rstrip().endswith(tags.open)


def stops_inside(text: str, tags: Tags) -> bool:
    """Whether the start of an answer leaves a thought open."""
    return text.rfind(tags.open) > text.rfind(tags.close)
