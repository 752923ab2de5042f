"""How text is cut into words before byte-pair merging: the rules that `tokenizer.ggml.pre` names.

The patterns are the models' own (their tokenizer.json); which name means which pattern is
llama.cpp's table (src/llama-vocab.cpp).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tokenizers import Regex, pre_tokenizers

from stoker.core.errors import StartError

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{TAIL}"
QWEN2 = rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{TAIL}"
QWEN35 = (
    rf"{CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")
DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
)


@dataclass(frozen=True, slots=True)
class Rule:
    patterns: tuple[str, ...]
    """Each is applied to the pieces that the one before it left."""
    whole_words: bool = False
    """True: a word that is a token is taken without merging."""
    adds_bos: bool = False
    """Whether a prompt begins with BOS if the file does not say."""


SMOLLM_RULE = Rule((r"\p{N}", GPT2))
GPT2_RULE = Rule((GPT2,))
LLAMA3_RULE = Rule((LLAMA3,), whole_words=True, adds_bos=True)
QWEN2_RULE = Rule((QWEN2,))
RULES: Mapping[str, Rule] = {
    "default": Rule(DEFAULT),
    "smollm": SMOLLM_RULE,
    "starcoder": SMOLLM_RULE,
    "refact": SMOLLM_RULE,
    "command-r": SMOLLM_RULE,
    "codeshell": SMOLLM_RULE,
    "gpt-2": GPT2_RULE,
    "phi-2": GPT2_RULE,
    "olmo": GPT2_RULE,
    "mpt": GPT2_RULE,
    "trillion": GPT2_RULE,
    "llama3": LLAMA3_RULE,
    "llama-v3": LLAMA3_RULE,
    "llama-bpe": LLAMA3_RULE,
    "falcon3": LLAMA3_RULE,
    "lfm2": LLAMA3_RULE,
    "dbrx": Rule((LLAMA3,)),
    "smaug-bpe": Rule((LLAMA3,)),
    "qwen2": QWEN2_RULE,
    "deepseek-r1-qwen": QWEN2_RULE,
    "stablelm2": QWEN2_RULE,
    "qwen35": Rule((QWEN35,)),
    "tekken": Rule((TEKKEN,), whole_words=True, adds_bos=True),
    "deepseek-v3": Rule(DEEPSEEK3),
}


def rule(name: str) -> Rule:
    """Raises StartError for a name that is not in the table."""
    if name not in RULES:
        known = ", ".join(sorted(RULES))
        raise StartError(f"tokenizer.ggml.pre {name!r} is not supported; supported are {known}")
    return RULES[name]


def splitter(found: Rule) -> pre_tokenizers.PreTokenizer:
    """The rule as a pre-tokenizer: the patterns in turn, then bytes as printable characters."""
    parts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in found.patterns]
    return pre_tokenizers.Sequence([*parts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
