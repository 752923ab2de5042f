"""The built-in templates; how their texts read is in test_template.py."""

import pytest

from stoker.core.errors import StartError
from stoker.text.builtin import TEMPLATES, resolve
from stoker.text.template import ChatTemplate


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_built_in_template_renders_a_conversation(name: str) -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    text = ChatTemplate(resolve(name), "<s>", "</s>").render([*messages, {"role": "user", "content": "Go on"}])
    assert text.index("Hi") < text.index("Hello") < text.index("Go on")


def test_a_template_of_ones_own_is_taken_as_it_is() -> None:
    assert resolve("{{ messages[0].content }}") == "{{ messages[0].content }}"


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(StartError, match=r"no built-in template 'nope'; built in: chatml, llama3"):
        resolve("nope")
