"""Chat templates: rendering as Hugging Face does, capabilities, the fitting of messages, built-in names."""

from datetime import datetime
from typing import Any

import pytest

from stoker.core.errors import InvalidRequest, StartError
from stoker.text.builtin import CHATML, TEMPLATES, resolve
from stoker.text.template import ChatTemplate

USER = {"role": "user", "content": "Hi"}
QWEN_LIKE = (
    "{%- if tools %}{{- '<tools>' }}{%- for tool in tools %}{{- tool | tojson }}{%- endfor %}{{- '</tools>\n' }}"
    "{%- endif %}"
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\n' }}"
    "{%- if message.reasoning_content %}{{- '<think>' + message.reasoning_content + '</think>' }}{%- endif %}"
    "{{- message.content }}"
    "{%- for call in message.tool_calls or [] %}"
    '{{- \'\n<tool_call>{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{- call.function.arguments | tojson }}{{- '}</tool_call>' }}"
    "{%- endfor %}{{- '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}"
    "{%- if enable_thinking is defined and not enable_thinking %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}"
    "{%- endif %}"
)
TYPED = (
    "{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}|"
    "{% endif %}{% endfor %}{% endfor %}"
)


def render(source: str, *messages: Any, **kwargs: Any) -> str:
    return ChatTemplate(source, "<s>", "</s>").render(messages or [USER], **kwargs)


def test_without_a_template_chatml_stands_in() -> None:
    template = ChatTemplate(None)
    assert template.source == CHATML
    assert template.render([USER]) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert template.generation_prompt == "<|im_start|>assistant\n"


def test_blocks_take_no_lines_and_loops_can_break() -> None:
    source = (
        "{% for m in messages %}\n  {% if loop.index > 1 %}{% break %}{% endif %}\n{{ m.content }}\n{% endfor %}\nend"
    )
    assert render(source, USER, USER) == "Hi\nend"


def test_json_keeps_characters_and_signs() -> None:
    assert render("{{ messages[0].content | tojson }}", {"role": "user", "content": "<é'&>"}) == '"<é\'&>"'
    assert render("{{ messages | tojson(indent=1) }}").startswith('[\n {\n  "role"')


def test_tokens_dates_and_generation_blocks_are_there() -> None:
    assert render("{{ bos_token }}{% generation %}a{% endgeneration %}{{ eos_token }}") == "<s>a</s>"
    assert render("{{ strftime_now('%Y') }}").isdigit()


def test_every_template_is_told_the_date_unless_the_request_tells_it() -> None:
    today = datetime.now()
    assert render("{{ date_string }}|{{ datetime }}") == f"{today:%d %b %Y}|{today:%b %d %Y}"
    assert render("{{ date_string }}", date_string="then") == "then"


def test_what_is_missing_joins_a_text_as_an_empty_one() -> None:
    assert render("{{ 'a' + functions }}{{ none + 'b' }}{{ 1 + 2 }}") == "ab3"
    for source in ("{{ 1 + functions }}", "{{ functions + functions }}", "{{ none + 1 }}"):
        with pytest.raises(InvalidRequest):
            render(source)


def test_variables_cannot_replace_the_messages() -> None:
    assert render("{{ messages[0].content }}{{ x }}{{ bos_token }}", x=1, bos_token="no") == "Hi1<s>"


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('no') }}",
        "{{ messages[0].content + 5 }}",
        "{{ messages[7].content.x }}",
        "{{ 1 // 0 }}",
        "{{ messages.append(1) }}",
        "{{ messages.__class__.__mro__ }}",
    ],
)
def test_a_template_that_fails_or_reaches_too_far_is_an_invalid_request(source: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^chat template: "):
        render(source)


def test_a_template_that_does_not_parse_stops_the_start() -> None:
    with pytest.raises(StartError, match="chat template, line 2"):
        ChatTemplate("a\n{% for %}")


def test_caps_of_a_template_with_tools() -> None:
    caps = ChatTemplate(QWEN_LIKE).caps.as_dict()
    assert [name.removeprefix("supports_") for name, has in caps.items() if has] == [
        "object_arguments",
        "parallel_tool_calls",
        "preserve_reasoning",
        "string_content",
        "system_role",
        "tool_calls",
        "tools",
    ]


def test_caps_of_other_kinds() -> None:
    typed = ChatTemplate(TYPED).caps
    assert (typed.supports_typed_content, typed.supports_string_content) == (True, False)
    assert not ChatTemplate(TEMPLATES["gemma"]).caps.supports_system_role
    assert ChatTemplate("{{ reasoning_effort }}").caps.supports_reasoning_effort
    assert not ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}").caps.supports_typed_content


def test_arguments_become_objects_where_the_template_prints_json() -> None:
    call = {"function": {"name": "f", "arguments": '{"x": 1}'}}
    broken = {"function": {"name": "g", "arguments": "{"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call, broken]}
    text = ChatTemplate(QWEN_LIKE).render([USER, message], None, False)
    assert '"arguments": {"x": 1}' in text
    assert '"name": "g", "arguments": "{"' in text
    assert "None" not in text


def test_calls_of_no_known_form_are_left_alone() -> None:
    with pytest.raises(InvalidRequest):
        ChatTemplate(QWEN_LIKE).render([{"role": "assistant", "content": "", "tool_calls": ["x"]}])
    with pytest.raises(InvalidRequest):
        ChatTemplate(QWEN_LIKE).render([{"role": "assistant", "tool_calls": [{"function": {"name": "h"}}]}])


def test_parts_are_joined_for_a_template_of_strings_and_kept_for_one_of_parts() -> None:
    parts = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, "x"]}
    assert render("{% for m in messages %}{{ m['content'] + '.' }}{% endfor %}", parts) == "a\nb."
    assert render(TYPED, USER) == "<user>Hi|"
    assert render(TYPED, {"role": "user", "content": parts["content"][:2]}) == "<user>a|b|"


def test_developers_are_systems_unless_the_template_knows_them() -> None:
    developer = {"role": "developer", "content": "Be brief."}
    assert "<|im_start|>system\nBe brief." in render(CHATML, developer, USER)
    assert render("{# developer #}{{ messages[0].role }}", developer) == "developer"


def test_a_system_message_joins_the_next_one_where_there_is_no_such_role() -> None:
    system = {"role": "system", "content": "Be brief."}
    assert render(TEMPLATES["gemma"], system, USER).startswith("<start_of_turn>user\nBe brief.\nHi<end_of_turn>")
    strict = "{% if messages[0].role == 'system' %}{{ raise_exception('x') }}{% endif %}" + TYPED
    assert render(strict, system, USER) == "<user>Be brief.|Hi|"
    with pytest.raises(InvalidRequest):
        render(TEMPLATES["gemma"], system)


def test_the_tail_follows_the_template() -> None:
    assert ChatTemplate(QWEN_LIKE).generation_prompt == "<|im_start|>assistant\n"
    assert ChatTemplate("{{ add_generation_prompt }}").generation_prompt == ""
    assert ChatTemplate("{{ raise_exception('x') }}").generation_prompt == ""


@pytest.mark.parametrize("name", TEMPLATES)
def test_built_in_templates_render_a_turn(name: str) -> None:
    template = ChatTemplate(resolve(name))
    text = template.render([USER, {"role": "assistant", "content": "Yo"}, USER])
    assert text.count("Hi") == 2
    assert text.endswith(template.generation_prompt)
    assert template.generation_prompt or name.startswith(("llama2", "mistral", "minicpm", "deepseek-ocr"))


BUILT_IN = {
    "command-r": "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>S<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>A"
    "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>B<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|>"
    "<|USER_TOKEN|>C<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    "llama2": "[INST]  S\n A [/INST]B </s>[INST] C [/INST]",
    "llama2-sys-bos": "[INST] <<SYS>>\n S\n<</SYS>>\n\n A [/INST]B </s><s>[INST] C [/INST]",
    "llama2-sys-strip": "[INST] <<SYS>>\nS\n<</SYS>>\n\nA [/INST]B</s>[INST] C [/INST]",
    "mistral-v1": " [INST]  S\n\n A [/INST] B </s> [INST] C [/INST]",
    "mistral-v3": "[INST]  S\n\n A[/INST] B</s>[INST] C[/INST]",
    "mistral-v3-tekken": "[INST] S\n\n A[/INST]B </s>[INST]C[/INST]",
    "mistral-v7": "[SYSTEM_PROMPT]  S[/SYSTEM_PROMPT][INST]  A[/INST] B </s>[INST] C[/INST]",
    "phi4": "<|im_start|>system<|im_sep|> S<|im_end|><|im_start|>user<|im_sep|> A<|im_end|>"
    "<|im_start|>assistant<|im_sep|>B <|im_end|><|im_start|>user<|im_sep|>C<|im_end|><|im_start|>assistant<|im_sep|>",
    "chatglm4": "[gMASK]<sop><|system|>\n S<|user|>\n A<|assistant|>\nB <|user|>\nC<|assistant|>\n",
    "minicpm": "S<用户>A<AI>B<用户>C<AI>",
    "deepseek3": " S\n\n<｜User｜> A<｜Assistant｜>B <｜end▁of▁sentence｜><｜User｜>C<｜Assistant｜>",
}
"""By name: what a short conversation becomes, read off llama.cpp's own rules; ` S`, ` A` and `B ` have a blank."""


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_template_puts_a_models_own_marks_around_each_turn(name: str) -> None:
    roles = (("system", " S"), ("user", " A"), ("assistant", "B "), ("user", "C"))
    messages = [{"role": role, "content": content} for role, content in roles]
    assert ChatTemplate(resolve(name)).render(messages) == BUILT_IN[name]


def test_an_unknown_name_is_refused_with_the_list() -> None:
    assert resolve("{{ messages }}") == "{{ messages }}"
    with pytest.raises(StartError, match="no built-in template 'vicuna9'; built in: chatml, "):
        resolve("vicuna9")
