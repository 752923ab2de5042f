"""Answers of every family, taken apart whole and in pieces of any size."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.text.deltas import Call, CallPart, Content, Delta, Message, Thought
from stoker.text.reasoning import FAMILIES, HARMONY, Tags, find_tags, opens_at_end, stops_inside
from stoker.text.reply import Parsing, Reply, read
from stoker.text.tools import known
from stoker.text.tools.format import Format
from stoker.text.writer import numbered

THINK = FAMILIES[-1]
SCHEMAS: dict[str, dict[str, Any]] = {
    "weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "note": {"type": ["string", "null"]},
            "deep": {"type": "object"},
            "on": {"type": "boolean"},
        },
        "required": ["city"],
    },
    "python": {"type": "object", "properties": {"code": {"type": "string"}}},
    "now": {},
}


def parsing(form: Format | None = None, tags: Tags | None = None, **changes: Any) -> Parsing:
    channels = form is known.HARMONY or tags is HARMONY
    return replace(Parsing(tags=tags, format=form, schemas=SCHEMAS, channels=channels), **changes)


def said(message: Message) -> tuple[str, str, list[tuple[str, Any]]]:
    """Content, reasoning, calls with their arguments parsed."""
    return message.content, message.reasoning, [(call.name, json.loads(call.arguments)) for call in message.calls]


def joined(deltas: list[Delta]) -> Message:
    """The message that a client puts together; fails where a call's id and name are not on its first piece alone."""
    content = "".join(delta.text for delta in deltas if isinstance(delta, Content))
    reasoning = "".join(delta.text for delta in deltas if isinstance(delta, Thought))
    calls: list[Call] = []
    for delta in deltas:
        if isinstance(delta, CallPart):
            assert bool(delta.name) == bool(delta.id) == (delta.index == len(calls))
            if delta.name:
                calls.append(Call(delta.id, delta.name, ""))
            last = calls[delta.index]
            assert delta.index == len(calls) - 1
            calls[-1] = replace(last, arguments=last.arguments + delta.arguments)
    return Message(content, reasoning, tuple(calls))


def streamed(pieces: list[str], how: Parsing) -> Message:
    reply = Reply(replace(how, new_id=numbered()))
    deltas: list[Delta] = []
    for piece in pieces:
        deltas += reply.push(piece)
    deltas += reply.end()
    assert all(delta != Content("") and delta != Thought("") for delta in deltas)
    message = joined(deltas)
    assert message == reply.message
    return message


PARIS = ("weather", {"city": "Paris"})
ROME = ("weather", {"city": "Rome", "days": 2})
DS = known.DEEPSEEK.marks
KIMI = known.KIMI.marks

Sample = tuple[str, Parsing, str, tuple[str, str, list[tuple[str, Any]]]]
SAMPLES: list[Sample] = [
    ("plain", parsing(), " <think> a </think>\n\n- b \n", (" <think> a </think>\n\n- b \n", "", [])),
    ("thought", parsing(tags=THINK), "\n<think>\nfirst, 17\n</think>\n\nIt is 51. ", ("It is 51. ", "first, 17", [])),
    ("open thought", parsing(tags=THINK, inside=True), "hm\n\n</think>\n\nYes\n", ("Yes\n", "hm", [])),
    ("cut thought", parsing(tags=THINK, inside=True), "hm, and </thi", ("", "hm, and </thi", [])),
    ("no thought", parsing(tags=THINK), "  a <think>b</think>", ("  a <think>b</think>", "", [])),
    ("empty thought", parsing(tags=THINK), "<think>\n\n</think>\n\nYes", ("Yes", "", [])),
    ("two thoughts", parsing(tags=THINK), "<think>a</think> <think>b</think>c", ("c", "a\nb", [])),
    ("only space", parsing(tags=THINK), " \n", (" \n", "", [])),
    ("magistral", parsing(tags=FAMILIES[0]), "[THINK]so[/THINK]Good day", ("Good day", "so", [])),
    ("gemma thought", parsing(tags=FAMILIES[1]), "<|channel>thought\nso\n<channel|>Hello", ("Hello", "so", [])),
    (
        "hermes",
        parsing(known.HERMES),
        'Let me look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>\n',
        ("Let me look.", "", [PARIS]),
    ),
    (
        "hermes, two",
        parsing(known.HERMES),
        '<tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call>\n'
        '<tool_call>{"arguments": {"city": "Rome", "days": 2}, "name": "weather", "id": "x"}</tool_call>',
        ("", "", [PARIS, ROME]),
    ),
    (
        "hermes, two in one tag",
        parsing(known.HERMES),
        '<tool_call>[{"name": "weather", "arguments": {"city": "Paris"}}, '
        '{"name": "weather", "parameters": "{\\"city\\": \\"Rome\\", \\"days\\": 2}"}]</tool_call>',
        ("", "", [PARIS, ROME]),
    ),
    (
        "hermes, one only",
        parsing(known.HERMES, parallel=False),
        '<tool_call>{"name": "now"}</tool_call>, and <tool_call>{"name": "weather", "arguments": {}}</tool_call>more',
        (", and", "", [("now", {})]),
    ),
    (
        "hermes after a thought",
        parsing(known.HERMES, THINK),
        '<think>I need it</think>\n<tool_call>{"name": "weather", "arguments": {"city": "a}\\"]\\\\"}}</tool_call>',
        ("", "I need it", [("weather", {"city": 'a}"]\\'})]),
    ),
    (
        "hermes inside a thought",
        parsing(known.HERMES, THINK, inside=True),
        'I need it\n<tool_call>{"name": "now", "arguments": null}</tool_call> Done',
        ("Done", "I need it", [("now", {})]),
    ),
    (
        "hermes, wrapped",
        parsing(known.HERMES),
        '<tool_call>{"type": "function", "function": {"name": "now", "arguments": {}}}</tool_call>',
        ("", "", [("now", {})]),
    ),
    ("no call", parsing(known.HERMES), "see <tool_call>tag</tool_call> ", ("see <tool_call>tag</tool_call> ", "", [])),
    (
        "no name",
        parsing(known.HERMES),
        '<tool_call>{"city": "Paris"}</tool_call>',
        ('<tool_call>{"city": "Paris"}</tool_call>', "", []),
    ),
    (
        "name is a number",
        parsing(known.HERMES),
        '<tool_call>{"name": 4}</tool_call>',
        ('<tool_call>{"name": 4}</tool_call>', "", []),
    ),
    ("broken off", parsing(known.HERMES), '<tool_call>{"na', ('<tool_call>{"na', "", [])),
    ("broken object", parsing(known.HERMES), '<tool_call>{"name": "now" x', ('<tool_call>{"name": "now" x', "", [])),
    (
        "qwen coder",
        parsing(known.QWEN_CODER, THINK),
        "<think>\nlet me\n</think>\n\n<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n"
        '<parameter=days>\n3\n</parameter>\n<parameter=deep>\n{"a": [1]}\n</parameter>\n<parameter=on>\nTrue\n'
        "</parameter>\n<parameter=free>\nx y\n</parameter>\n</function>\n</tool_call>",
        ("", "let me", [("weather", {"city": "Paris", "days": 3, "deep": {"a": [1]}, "on": True, "free": "x y"})]),
    ),
    (
        "qwen coder, long text",
        parsing(known.QWEN_CODER),
        'Writing.\n\n<function=python>\n<parameter=code>\nprint("<p>")\n\n\tif a < b:\n</parameter>\n</function>',
        ("Writing.", "", [("python", {"code": 'print("<p>")\n\n\tif a < b:'})]),
    ),
    ("qwen coder, no arguments", parsing(known.QWEN_CODER), "<tool_call><function=now></function></tool_call>!",
     ("!", "", [("now", {})])),
    ("qwen coder, json", parsing(known.QWEN_CODER), '<tool_call>{"name": "now", "arguments": {}}</tool_call>',
     ("", "", [("now", {})])),
    ("qwen coder, nothing", parsing(known.QWEN_CODER), "<tool_call>x <function=a\nb> ",
     ("<tool_call>x <function=a\nb> ", "", [])),
    (
        "glm",
        parsing(known.GLM),
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>days</arg_key>\n"
        "<arg_value>2</arg_value>\n</tool_call>",
        ("", "", [ROME]),
    ),
    ("glm, json", parsing(known.GLM), '<tool_call>{"name": "now"}</tool_call>', ("", "", [("now", {})])),
    ("glm, no call", parsing(known.GLM), "<tool_call>and so on", ("<tool_call>and so on", "", [])),
    (
        "llama 3",
        parsing(known.LLAMA),
        '{"type": "function", "name": "weather", "parameters": {"city": "Paris"}}',
        ("", "", [PARIS]),
    ),
    (
        "llama 3, two",
        parsing(known.LLAMA),
        '\n{"name": "weather", "parameters": {"city": "Paris"}}; {"name": "weather", "parameters": '
        '{"city": "Rome", "days": 2}}',
        ("", "", [PARIS, ROME]),
    ),
    ("llama 3, json answer", parsing(known.LLAMA), '{"city": "Paris"}', ('{"city": "Paris"}', "", [])),
    ("llama 3, unknown tool", parsing(known.LLAMA), ' {"name": "Bob"}', (' {"name": "Bob"}', "", [])),
    ("llama 3, later json", parsing(known.LLAMA), 'See {"name": "now"}', ('See {"name": "now"}', "", [])),
    (
        "llama 3, python tag",
        parsing(known.LLAMA),
        '<|python_tag|>{"name": "weather", "parameters": {"city": "Paris"}}',
        ("", "", [PARIS]),
    ),
    ("llama 3, call", parsing(known.LLAMA), '<|python_tag|>weather.call(city="Paris")', ("", "", [PARIS])),
    (
        "llama 3, code",
        parsing(known.LLAMA),
        "<|python_tag|>import math\nprint(math.pi)",
        ("", "", [("python", {"code": "import math\nprint(math.pi)"})]),
    ),
    (
        "mistral, array",
        parsing(known.MISTRAL),
        '[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Paris"}, "id": "abcdefghi"}, '
        '{"name": "weather", "arguments": {"city": "Rome", "days": 2}}]',
        ("", "", [PARIS, ROME]),
    ),
    (
        "mistral, headed",
        parsing(known.MISTRAL, FAMILIES[0]),
        '[THINK]hm[/THINK]Looking[TOOL_CALLS]weather[ARGS]{"city": "Paris"}'
        '[TOOL_CALLS]weather[CALL_ID]123456789[ARGS]{"city": "Rome", "days": 2}',
        ("Looking", "hm", [PARIS, ROME]),
    ),
    ("mistral, no call", parsing(known.MISTRAL), "[TOOL_CALLS]and so on", ("[TOOL_CALLS]and so on", "", [])),
    (
        "deepseek r1",
        parsing(known.DEEPSEEK, THINK, inside=True),
        f"hm\n</think>\n\n{DS[0]}{DS[2]}function{DS[3]}weather\n```json\n"
        f'{{"city": "Paris"}}\n```{DS[4]}\n{DS[2]}function{DS[3]}now\n```json\n{{}}\n```{DS[4]}{DS[1]}',
        ("", "hm", [PARIS, ("now", {})]),
    ),
    (
        "deepseek v3.1",
        parsing(known.DEEPSEEK),
        f'Looking.{DS[0]}{DS[2]}weather{DS[3]}{{"city": "Paris"}}{DS[4]}{DS[1]}',
        ("Looking.", "", [PARIS]),
    ),
    ("deepseek, no call", parsing(known.DEEPSEEK), f"{DS[0]} {DS[2]}a{DS[4]}", (f"{DS[0]} {DS[2]}a{DS[4]}", "", [])),
    (
        "kimi",
        parsing(known.KIMI),
        f'Yes.{KIMI[0]}{KIMI[2]}functions.weather:0{KIMI[3]}{{"city": "Paris"}}{KIMI[4]}{KIMI[1]}',
        ("Yes.", "", [PARIS]),
    ),
    (
        "lfm2",
        parsing(known.LFM2),
        '<|tool_call_start|>[weather(city="Paris"), weather(city=\'Rome\', days=2)]<|tool_call_end|>Checking.',
        ("Checking.", "", [PARIS, ROME]),
    ),
    (
        "lfm2, words",
        parsing(known.LFM2),
        '<|tool_call_start|>[weather(city="P", on=true, note=null, deep={"a": [1]})]<|tool_call_end|>',
        ("", "", [("weather", {"city": "P", "on": True, "note": None, "deep": {"a": [1]}})]),
    ),
    (
        "lfm2, json",
        parsing(known.LFM2),
        '<|tool_call_start|>[{"name": "weather", "arguments": {"city": "Paris"}}]<|tool_call_end|>',
        ("", "", [PARIS]),
    ),
    ("lfm2, object", parsing(known.LFM2), '<|tool_call_start|>{"name": "now"}<|tool_call_end|>.',
     (".", "", [("now", {})])),
    ("lfm2, cut", parsing(known.LFM2), "<|tool_call_start|>[weather(ci", ("<|tool_call_start|>[weather(ci", "", [])),
    *(
        (
            f"{form.name}",
            parsing(form),
            f"{form.marks[0]}call:weather{{city:{q}a, }}b{q},days:3,on:true,note:null,deep:{{l:[{q}x{q},1.5],w:word}}}}"
            + form.marks[1],
            (
                "",
                "",
                [("weather", {"city": "a, }b", "days": 3, "on": True, "note": None,
                              "deep": {"l": ["x", 1.5], "w": "word"}})],
            ),
        )
        for form in (known.GEMMA4, known.FUNCTION_GEMMA)
        for q in (form.marks[2],)
    ),
    ("gemma, no call", parsing(known.GEMMA4), "<|tool_call>call:x{a<tool_call|>.",
     ("<|tool_call>call:x{a<tool_call|>.", "", [])),
    ("gemma, broken", parsing(known.GEMMA4), '<|tool_call>call:x{a:<|"|>b}<tool_call|>',
     ('<|tool_call>call:x{a:<|"|>b}<tool_call|>', "", [])),
    *(
        ("no python call", parsing(known.LFM2), f"<|tool_call_start|>{text}<|tool_call_end|>.",
         (f"<|tool_call_start|>{text}<|tool_call_end|>.", "", []))
        for text in ("[now(1)]", "[now(**a)]", "[now(a=b)]", "[now(a=1e999)]", "[now(a=1j)]", "[]", "now", "[now(), 3]",
                     "{3}", '[{"a": 1}]', "\x00")
    ),
    ("lfm2, odd escape", parsing(known.LFM2), r'<|tool_call_start|>[now(a="\d")]<|tool_call_end|>',
     ("", "", [("now", {"a": "\\d"})])),
    *(
        ("no gemma call", parsing(known.GEMMA4), f"<|tool_call>{text}<tool_call|>.",
         (f"<|tool_call>{text}<tool_call|>.", "", []))
        for text in ("call:x{a:[}}", "call:x{a:}", "call:x{a:1}}", 'call:x{a:"b}', "call:x", "call:x{a:[}")
    ),
    ("gemma, json", parsing(known.GEMMA4), '<|tool_call>call:x{"k":"v", <|"|>l<|"|>:[1, {}]}<tool_call|>',
     ("", "", [("x", {"k": "v", "l": [1, {}]})])),
    ("deepseek, no arguments", parsing(known.DEEPSEEK), f"{DS[0]}{DS[2]}now{DS[3]}so it goes",
     (f"{DS[0]}{DS[2]}now{DS[3]}so it goes", "", [])),
    ("deepseek, nothing", parsing(known.DEEPSEEK), f"{DS[0]} so", (f"{DS[0]} so", "", [])),
    ("kimi, no number", parsing(known.KIMI), f"{KIMI[2]}now{KIMI[3]}{{}}{KIMI[4]}", ("", "", [("now", {})])),
    ("llama 3, no interpreter", parsing(known.LLAMA, schemas={}), "<|python_tag|>x = 1",
     ("<|python_tag|>x = 1", "", [])),
    ("mistral, no name", parsing(known.MISTRAL), "[TOOL_CALLS][ARGS]{}", ("[TOOL_CALLS][ARGS]{}", "", [])),
    ("harmony, no name", parsing(known.HARMONY, HARMONY), "<|channel|>commentary to= <|message|>a", ("a", "", [])),
    (
        "harmony",
        parsing(known.HARMONY, HARMONY),
        "<|channel|>analysis<|message|>The user asks.<|end|><|start|>assistant<|channel|>final<|message|>Good day.",
        ("Good day.", "The user asks.", []),
    ),
    (
        "harmony, call",
        parsing(known.HARMONY, HARMONY),
        "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commentary<|message|>Looking.<|end|>"
        '<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Paris"}',
        ("Looking.", "Hm", [PARIS]),
    ),
    (
        "harmony, recipient first",
        parsing(known.HARMONY, HARMONY),
        ' to=functions.weather<|channel|>commentary json<|message|>{"city": "Paris"}<|call|>',
        ("", "", [PARIS]),
    ),
    (
        "harmony, no end",
        parsing(known.HARMONY, HARMONY),
        "<|channel|>analysis<|message|>Hm<|channel|>final<|message|>Yes",
        ("Yes", "Hm", []),
    ),
    (
        "harmony, thoughts stay",
        parsing(tags=None, channels=True),
        "<|channel|>analysis<|message|>Hm. <|end|><|start|>assistant<|channel|>final<|message|>Yes",
        ("Hm. Yes", "", []),
    ),
    ("harmony, forgotten", parsing(known.HARMONY, HARMONY), "Good day.", ("Good day.", "", [])),
    ("harmony, cut in a head", parsing(known.HARMONY, HARMONY), "<|channel|>anal", ("", "", [])),
    ("generic", parsing(known.GENERIC), '{"name": "now", "arguments": {}}', ("", "", [("now", {})])),
]  # fmt: skip


@pytest.mark.parametrize(("how", "text", "want"), [sample[1:] for sample in SAMPLES], ids=[one[0] for one in SAMPLES])
def test_an_answer_is_read_whole_and_letter_by_letter(how: Parsing, text: str, want: Any) -> None:
    whole = read(text, replace(how, new_id=numbered()))
    assert said(whole) == want
    assert streamed(list(text), how) == whole


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_pieces_of_an_answer_add_up_however_it_is_cut(data: st.DataObject) -> None:
    _, how, text, _ = data.draw(st.sampled_from(SAMPLES))
    end = data.draw(st.integers(0, len(text)))
    text = text[:end] if data.draw(st.booleans()) else text
    for word in data.draw(st.lists(st.sampled_from(TOKENS), max_size=3)):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + word + text[at:]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert streamed(pieces, how) == read(text, replace(how, new_id=numbered()))


def _words(how: Parsing) -> set[str]:
    return {*how.format.marks, *how.format.openers} if how.format else set()


TOKENS = sorted(
    set().union(*(_words(how) for _, how, _, _ in SAMPLES))
    | {tag for tags in (*FAMILIES, HARMONY) for tag in (tags.open, tags.close)}
    | set('{}[]",:\\ \n')
    | {"weather", '{"name": "weather", "arguments": {"', "call:now{", "a", "<", "</", "|>"}
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(SAMPLES), st.lists(st.sampled_from(TOKENS), max_size=14), st.data())
def test_nonsense_is_read_alike_however_it_is_cut(sample: Sample, tokens: list[str], data: st.DataObject) -> None:
    text = "".join(tokens)
    size = data.draw(st.integers(1, 7))
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert streamed(pieces, sample[1]) == read(text, replace(sample[1], new_id=numbered()))


def test_text_is_told_as_soon_as_it_cannot_be_a_tag() -> None:
    reply = Reply(parsing(known.HERMES, THINK))
    assert reply.push("a <") == [Content("a")]
    assert reply.push("b") == [Content(" <b")]
    assert reply.push(" <tool_") == []
    assert reply.push('call>{"name": "weather", "arg') == []
    assert reply.push('uments": {"ci') == [CallPart(0, "0" * 32, "weather", '{"ci')]
    assert reply.push('ty": "P') == [CallPart(0, arguments='ty": "P')]
    assert reply.push('"}}</tool_call>') == [CallPart(0, arguments='"}')]
    assert reply.end() == []


def test_a_tagged_text_argument_is_told_while_it_is_written() -> None:
    reply = Reply(parsing(known.QWEN_CODER))
    reply.push("<function=python><parameter=code>\nimport")
    assert reply.push(' "os"\n') == [CallPart(0, arguments=' \\"os\\"')]
    assert reply.push("</parameter></function>") == [CallPart(0, arguments='"}')]


def test_mistral_ids_have_nine_characters() -> None:
    assert read("[TOOL_CALLS]now[ARGS]{}", parsing(known.MISTRAL)).calls == (Call("000000000", "now", "{}"),)


@pytest.mark.parametrize(
    ("words", "form"),
    [
        ("<|start|> <|channel|> <|message|>", known.HARMONY),
        ("{{ '<｜tool▁call▁begin｜>' }}", known.DEEPSEEK),
        ("<|tool_call_begin|>", known.KIMI),
        ("<|tool_call>", known.GEMMA4),
        ("<start_function_call>", known.FUNCTION_GEMMA),
        ("[AVAILABLE_TOOLS] [TOOL_CALLS]", known.MISTRAL),
        ("List of tools: <|tool_list_start|>", known.LFM2),
        ("<tool_call> <function=", known.QWEN_CODER),
        ("<tool_call> <arg_key>", known.GLM),
        ("<tools> <tool_call>", known.HERMES),
        ("<|start_header_id|> <|eot_id|>", known.LLAMA),
        ("tools as you like", known.GENERIC),
    ],
)
def test_the_template_tells_the_format_of_calls(words: str, form: Format) -> None:
    assert known.find_format(words) is form


def test_the_template_tells_the_tags_of_thoughts() -> None:
    assert find_tags("<|channel|>final<|message|>") is HARMONY
    assert find_tags("content.split('</think>')[-1]") == THINK
    assert find_tags("{{ messages }}") is None
    assert opens_at_end("assistant\n<think>\n", THINK)
    assert not opens_at_end("<think>\n\n</think>\n\n", THINK)
    assert stops_inside("<think>a", THINK)
    assert not stops_inside("<think>a</think>b", THINK)


@pytest.mark.parametrize("form", [known.HERMES, known.LLAMA, known.MISTRAL, known.GENERIC])
def test_what_required_imposes_is_read_as_a_call(form: Format) -> None:
    assert form.envelope is not None
    frame = form.envelope({"now": {}})
    key = "parameters" if form is known.LLAMA else "arguments"
    body: Any = {"name": "now", key: {}}
    if form is known.MISTRAL:
        body = [body]
    schema: Any = frame.schema.get("items", frame.schema)
    assert schema["properties"]["name"] == {"const": "now"}
    assert said(read(frame.begin + json.dumps(body) + frame.end, parsing(form))) == ("", "", [("now", {})])


def test_required_offers_each_tool() -> None:
    assert known.HERMES.envelope is not None
    both: Any = known.HERMES.envelope(SCHEMAS).schema
    assert [one["properties"]["name"]["const"] for one in both["anyOf"]] == ["weather", "python", "now"]
