"""Chat templates that `--chat-template` can name; the first also serves models that bring none."""

from stoker.core.errors import StartError
from stoker.text.turns import TURNS

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_LLAMA3 = (
    "{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
_GEMMA = (
    "{% if messages and messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}"
    "{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\n' }}"
    "{{ message['content'] | trim + '<end_of_turn>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
_PHI3 = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
_ZEPHYR = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|endoftext|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)


def _llama2(system: tuple[str, str], *, bos: str = "", strip: bool = False) -> str:
    """`system`: marks around a system message; `bos`: before each turn but the first."""
    content = "message['content'] | trim" if strip else "message['content']"
    return (
        "{% for message in messages %}"
        "{% if loop.first %}{{ '[INST] ' }}{% elif loop.previtem['role'] == 'assistant' %}"
        f"{{{{ '{bos}[INST] ' }}}}{{% endif %}}"
        f"{{% if message['role'] == 'system' %}}{{{{ {system[0]!r} }}}}{{{{ {content} }}}}{{{{ {system[1]!r} }}}}"
        f"{{% elif message['role'] == 'user' %}}{{{{ {content} }}}}{{{{ ' [/INST]' }}}}"
        f"{{% else %}}{{{{ {content} }}}}{{{{ '</s>' }}}}{{% endif %}}"
        "{% endfor %}"
    )


def _mistral(lead: str, blank: str, *, strip: bool = False) -> str:
    """The forms before v7: a system message opens the turn of its user."""
    answer = "message['content'] | trim" if strip else "message['content']"
    return (
        "{% for message in messages %}"
        "{% if loop.first or loop.previtem['role'] == 'assistant' %}"
        f"{{{{ '{lead}[INST]{blank}' }}}}{{% endif %}}"
        "{% if message['role'] == 'system' %}{{ message['content'] + '\n\n' }}"
        f"{{% elif message['role'] == 'user' %}}{{{{ message['content'] + '{lead}[/INST]' }}}}"
        f"{{% else %}}{{{{ '{blank}' }}}}{{{{ {answer} }}}}{{{{ '</s>' }}}}{{% endif %}}"
        "{% endfor %}"
    )


_SYS = ("<<SYS>>\n", "\n<</SYS>>\n\n")
TEMPLATES = {
    "chatml": CHATML,
    "llama3": _LLAMA3,
    "gemma": _GEMMA,
    "phi3": _PHI3,
    "zephyr": _ZEPHYR,
    "llama2": _llama2(("", "\n")),
    "llama2-sys": _llama2(_SYS),
    "llama2-sys-bos": _llama2(_SYS, bos="<s>"),
    "llama2-sys-strip": _llama2(_SYS, strip=True),
    "mistral-v1": _mistral(" ", " "),
    "mistral-v3": _mistral("", " ", strip=True),
    "mistral-v3-tekken": _mistral("", ""),
    **{name: turns.source for name, turns in TURNS.items()},
}


def resolve(text: str) -> str:
    """The source for `--chat-template`: a name of the table, or a template itself. Raises StartError."""
    if "{%" in text or "{{" in text:
        return text
    if text not in TEMPLATES:
        raise StartError(f"--chat-template: no built-in template '{text}'; built in: {', '.join(TEMPLATES)}")
    return TEMPLATES[text]
