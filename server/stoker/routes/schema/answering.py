"""How a chat's answer will be read: where thoughts and calls are looked for, which control tokens must show."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from stoker.routes.schema.job import Job
from stoker.routes.schema.rendering import Conversation, Start
from stoker.routes.schema.thinking import limit
from stoker.routes.schema.tools import Prompt, imposed
from stoker.routes.service import Service
from stoker.routes.shape.ids import call_id
from stoker.text.reasoning import HARMONY
from stoker.text.reply import Parsing
from stoker.text.tools import known

Body = Mapping[str, object]

NONE, LEGACY = "none", "deepseek-legacy"


def with_answer(job: Job, body: Body, conversation: Conversation, prompt: Prompt, service: Service) -> Job:
    """The job of a chat: its parsing, its bound on thoughts, the start of the answer."""
    tags, start = service.template.tags, conversation.start or Start()
    parsing = _parsing(job, conversation, prompt, service)
    kept = tags is not None and job.options.reasoning_format == LEGACY and job.options.stream
    openers = parsing.format.openers if parsing.format else ()
    thought = None
    if tags is not None:
        thought = limit(
            body, service, tags.open, (tags.close, *openers), inside=prompt.inside, words=tags.last_words
        )  # fmt: skip
    options = replace(
        job.options,
        chat_format="peg-native",
        generation_prompt=service.template.generation_prompt,
        reasoning_in_content=kept,
        preserved=tuple(sorted({*job.options.preserved, *_preserved(parsing, service)})),
    )
    return replace(
        job,
        options=options,
        prefill=start.content,
        prefill_thought=start.thought,
        lead=tags.open + "\n" if tags is not None and kept and prompt.inside else "",
        parsing=replace(parsing, tags=None) if kept else parsing,
        thought=thought,
        grammar=imposed(conversation.offer, prompt, service) or job.grammar,
    )


def _parsing(job: Job, conversation: Conversation, prompt: Prompt, service: Service) -> Parsing:
    template = service.template
    if not service.defaults.chat_parsing:
        return Parsing()
    tags = None if job.options.reasoning_format == NONE else template.tags
    return Parsing(
        tags=tags,
        inside=prompt.inside and tags is not None,
        format=template.format if conversation.offer.tools else None,
        schemas=conversation.offer.schemas,
        parallel=conversation.offer.parallel,
        channels=template.tags is HARMONY,
        new_id=call_id,
    )


def _preserved(parsing: Parsing, service: Service) -> Iterable[int]:
    """Ids of the tags that are one token each. Tokens that end an answer never show."""
    tags = service.template.tags
    words = [*((tags.open, tags.close) if tags is not None and not parsing.plain else ())]
    words += parsing.format.marks if parsing.format else ()
    words += known.HARMONY.marks if parsing.channels else ()
    for word in set(words):
        ids = service.tokenizer.encode(word, add_special=False, parse_special=True)
        if len(ids) == 1 and ids[0] not in service.tokenizer.end_ids:
            yield ids[0]
