"""Built-in chat templates of the plainest kind: each message between the marks of its role.

The marks are the models' own, as llama.cpp's names for them say (llama-chat.cpp of b10621).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Turns:
    """`every`: marks before and after a message whose role has none of its own; `{role}` stands for the role."""

    every: tuple[str, str] | None = None
    roles: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    answer: str = ""
    """What asks for the answer."""
    opening: str = ""
    trim: bool = False

    @property
    def source(self) -> str:
        """As a jinja2 template."""
        text = "message['content'] | trim" if self.trim else "message['content']"
        branches = [f"message['role'] == {_quoted(role)} %}}{_said(marks, text)}" for role, marks in self.roles.items()]
        chosen = "".join(f"{{% {'elif' if place else 'if'} {branch}" for place, branch in enumerate(branches))
        other = _said(self.every, text) if self.every else ""
        body = f"{chosen}{{% else %}}{other}{{% endif %}}" if branches else other
        opening = f"{{{{ {_quoted(self.opening)} }}}}" if self.opening else ""
        answer = f"{{% if add_generation_prompt %}}{{{{ {_quoted(self.answer)} }}}}{{% endif %}}" if self.answer else ""
        return f"{opening}{{% for message in messages %}}{body}{{% endfor %}}{answer}"


def _said(marks: tuple[str, str], text: str) -> str:
    before, after = (_quoted(mark).replace("{role}", "\" + message['role'] + \"") for mark in marks)
    return f"{{{{ {before} }}}}{{{{ {text} }}}}{{{{ {after} }}}}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _named(system: tuple[str, str], user: tuple[str, str], assistant: tuple[str, str]) -> dict[str, tuple[str, str]]:
    return {"system": system, "user": user, "assistant": assistant}


_COMMAND = "<|START_OF_TURN_TOKEN|><|{}_TOKEN|>"
_COMMAND_END = "<|END_OF_TURN_TOKEN|>"
_EXAONE = _named(("[|system|]", "[|endofturn|]\n"), ("[|user|]", "\n"), ("[|assistant|]", "[|endofturn|]\n"))
_DEEPSEEK_END = "<｜end▁of▁sentence｜>"

TURNS = {
    "phi4": Turns(("<|im_start|>{role}<|im_sep|>", "<|im_end|>"), answer="<|im_start|>assistant<|im_sep|>"),
    "falcon3": Turns(("<|{role}|>\n", "\n"), answer="<|assistant|>\n"),
    "granite": Turns(
        ("<|start_of_role|>{role}<|end_of_role|>", "<|end_of_text|>\n"),
        answer="<|start_of_role|>assistant<|end_of_role|>",
    ),
    "chatglm3": Turns(("<|{role}|>\n ", ""), opening="[gMASK]sop", answer="<|assistant|>"),
    "chatglm4": Turns(("<|{role}|>\n", ""), opening="[gMASK]<sop>", answer="<|assistant|>\n"),
    "glmedge": Turns(("<|{role}|>\n", ""), answer="<|assistant|>"),
    "exaone-moe": Turns(("<|{role}|>\n", "<|endofturn|>\n"), answer="<|assistant|>\n", trim=True),
    "exaone3": Turns(roles=_EXAONE, answer="[|assistant|]", trim=True),
    "exaone4": Turns(
        roles={**_EXAONE, "tool": ("[|tool|]", "[|endofturn|]\n")}, answer="[|assistant|]", trim=True
    ),
    "command-r": Turns(
        roles=_named(
            (_COMMAND.format("SYSTEM"), _COMMAND_END),
            (_COMMAND.format("USER"), _COMMAND_END),
            (_COMMAND.format("CHATBOT"), _COMMAND_END),
        ),
        answer=_COMMAND.format("CHATBOT"),
        trim=True,
    ),
    "vicuna": Turns(
        roles=_named(("", "\n\n"), ("USER: ", "\n"), ("ASSISTANT: ", "</s>\n")), answer="ASSISTANT:"
    ),
    "vicuna-orca": Turns(
        roles=_named(("SYSTEM: ", "\n"), ("USER: ", "\n"), ("ASSISTANT: ", "</s>\n")), answer="ASSISTANT:"
    ),
    "openchat": Turns(
        roles=_named(
            ("", "<|end_of_turn|>"),
            ("GPT4 Correct User: ", "<|end_of_turn|>"),
            ("GPT4 Correct Assistant: ", "<|end_of_turn|>"),
        ),
        answer="GPT4 Correct Assistant:",
    ),
    "deepseek": Turns(
        roles=_named(("", ""), ("### Instruction:\n", "\n"), ("### Response:\n", "\n<|EOT|>\n")),
        answer="### Response:\n",
    ),
    "deepseek2": Turns(
        roles=_named(("", "\n\n"), ("User: ", "\n\n"), ("Assistant: ", _DEEPSEEK_END)), answer="Assistant:"
    ),
    "deepseek3": Turns(
        roles=_named(("", "\n\n"), ("<｜User｜>", ""), ("<｜Assistant｜>", _DEEPSEEK_END)), answer="<｜Assistant｜>"
    ),
    "deepseek-ocr": Turns(("", "")),
    "minicpm": Turns(("", ""), {"user": ("<用户>", "<AI>")}, trim=True),
    "mistral-v7": Turns(
        roles=_named(("[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"), ("[INST] ", "[/INST]"), (" ", "</s>"))
    ),
    "mistral-v7-tekken": Turns(
        roles=_named(("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"), ("[INST]", "[/INST]"), ("", "</s>"))
    ),
}  # fmt: skip
