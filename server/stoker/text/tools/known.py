"""The formats of calls that are known, and which of them a chat template speaks."""

from stoker.text.tools import harmony, headed, json_calls, notation, xml_calls
from stoker.text.tools.format import Format, Reader


def _json(name: str, opener: str, close: str) -> Format:
    return Format(
        name,
        (opener,),
        json_calls.tagged(close),
        (opener, close),
        envelope=json_calls.envelope(opener + "\n", "\n" + close),
    )


def _headed(name: str, marks: headed.Marks, read: Reader) -> Format:
    return Format(name, (marks.block, marks.call), read, marks.all)


HERMES = _json("hermes", "<tool_call>", "</tool_call>")
QWEN_CODER = Format("qwen-coder", ("<tool_call>", "<function="), xml_calls.qwen_coder, ("<tool_call>", "</tool_call>"))
GLM = Format("glm", ("<tool_call>",), xml_calls.glm, HERMES.marks)
LLAMA = Format(
    "llama3",
    (json_calls.PYTHON_TAG,),
    json_calls.llama_python,
    (json_calls.PYTHON_TAG,),
    bare=json_calls.llama_bare,
    envelope=json_calls.envelope("", "", "parameters"),
)
MISTRAL = Format(
    "mistral",
    ("[TOOL_CALLS]",),
    json_calls.mistral,
    ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    id_length=9,
    envelope=json_calls.list_envelope("[TOOL_CALLS]", ""),
)
"""Its templates refuse ids of another length than nine."""
DEEPSEEK = _headed("deepseek", headed.DEEPSEEK, headed.reader(headed.DEEPSEEK, headed.deepseek_name))
KIMI = _headed("kimi", headed.KIMI, headed.reader(headed.KIMI, headed.kimi_name))
LFM2 = Format(
    "lfm2",
    ("<|tool_call_start|>",),
    notation.pythonic("<|tool_call_end|>"),
    ("<|tool_call_start|>", "<|tool_call_end|>"),
)
GEMMA4 = Format(
    "gemma4",
    ("<|tool_call>",),
    notation.gemma("<tool_call|>", '<|"|>'),
    ("<|tool_call>", "<tool_call|>", '<|"|>'),
)
FUNCTION_GEMMA = Format(
    "function-gemma",
    ("<start_function_call>",),
    notation.gemma("<end_function_call>", "<escape>"),
    ("<start_function_call>", "<end_function_call>", "<escape>"),
)
HARMONY = Format("harmony", (), json_calls.tagged(""), harmony.MARKS, channels=True)
GENERIC = Format("generic", HERMES.openers, HERMES.read, HERMES.marks, json_calls.llama_bare, envelope=HERMES.envelope)
"""For templates that show tools and say nothing we know of calls."""

_BY_WORDS: tuple[tuple[tuple[str, ...], Format], ...] = (
    (("<|channel|>", "<|message|>"), HARMONY),
    (("<｜tool▁call▁begin｜>",), DEEPSEEK),
    (("<|tool_call_begin|>",), KIMI),
    (("<|tool_call>",), GEMMA4),
    (("<start_function_call>",), FUNCTION_GEMMA),
    (("[TOOL_CALLS]",), MISTRAL),
    (("<|tool_call_start|>",), LFM2),
    (("<|tool_list_start|>",), LFM2),
    (("<tool_call>", "<function="), QWEN_CODER),
    (("<tool_call>", "<arg_key>"), GLM),
    (("<tool_call>",), HERMES),
    (("<|start_header_id|>", "<|eot_id|>"), LLAMA),
)
"""Most telling words first."""


def find_format(template: str) -> Format:
    """The format of a template that supports tools."""
    return next((form for words, form in _BY_WORDS if all(word in template for word in words)), GENERIC)
