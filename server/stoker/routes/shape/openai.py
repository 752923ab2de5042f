"""Events in OpenAI's shapes, with llama-server's keys and their order: text_completion and chat.completion."""

from collections.abc import Mapping, Sequence

from stoker.core.events import Finished, Piece, Progress, StopType
from stoker.routes.body import Json
from stoker.routes.shape import native, timings
from stoker.routes.shape.native import prompt_progress
from stoker.routes.shape.subject import Part, Subject
from stoker.text.deltas import Content, Delta, Message, Thought
from stoker.text.reply import read

Ended = Sequence[tuple[Part, Finished]]


def finish_reason(stop: StopType, calls: int = 0) -> str:
    if stop not in (StopType.EOS, StopType.WORD):
        return "length"
    return "tool_calls" if calls else "stop"


def usage(event: Finished) -> Json:
    predicted = len(event.tokens)
    return {
        "completion_tokens": predicted,
        "prompt_tokens": event.prompt_tokens,
        "total_tokens": predicted + event.prompt_tokens,
        "prompt_tokens_details": {"cached_tokens": event.cached_tokens},
    }


def text_completion(subject: Subject, ended: Ended) -> Json:
    """All choices; usage and timings are the first one's."""
    choices = [_text_choice(subject, part, event) for part, event in ended]
    return _whole(subject, choices, "text_completion", ended)


def chat_completion(subject: Subject, ended: Ended) -> Json:
    """All choices, the client's own start of the answer included in each; usage and timings are the first one's."""
    choices = [_chat_choice(subject, part, event) for part, event in ended]
    return _whole(subject, choices, "chat.completion", ended)


def text_piece(subject: Subject, part: Part, event: Piece) -> Json:
    logprobs = {"content": subject.probabilities(event)} if event.probs is not None else None
    chunk = _text_chunk(subject, part, event.text, logprobs, None) | {"id": subject.id}
    return chunk | _timings_per_token(subject, event)


def text_progress(subject: Subject, part: Part, event: Progress) -> Json:
    chunk = _text_chunk(subject, part, "", None, None) | {"id": subject.id}
    return chunk | prompt_progress(subject, event)


def text_finish(subject: Subject, part: Part, event: Finished) -> Json:
    """Always with usage, asked for or not."""
    chunk = _text_chunk(subject, part, "", None, finish_reason(event.stop))
    return chunk | {"usage": usage(event), "id": subject.id} | _ending(subject, part, event, streamed=True)


def chat_role(subject: Subject, part: Part) -> Json:
    return _chat_chunk(subject, part, {"role": "assistant", "content": None}, None)


def chat_progress(subject: Subject, part: Part, event: Progress) -> Json:
    return chat_role(subject, part) | prompt_progress(subject, event)


def chat_deltas(subject: Subject, part: Part, deltas: Sequence[Delta], pieces: Sequence[Piece]) -> list[Json]:
    """What the last piece made tellable; those before it had nothing to tell, only probabilities."""
    logprobs = subject.probabilities(*pieces)
    chunks: list[Json] = []
    for delta in deltas:
        chunks.append(_chat_chunk(subject, part, _delta(delta), None, logprobs))
        logprobs = []
    if chunks and pieces:
        chunks[-1] |= _timings_per_token(subject, pieces[-1])
    return chunks


def _delta(delta: Delta) -> Json:
    if isinstance(delta, Content):
        return {"content": delta.text}
    if isinstance(delta, Thought):
        return {"reasoning_content": delta.text}
    call: Json = {"index": delta.index}
    function: Json = {"arguments": delta.arguments}
    if delta.name:
        call |= {"id": delta.id, "type": "function"}
        function = {"name": delta.name, "arguments": delta.arguments}
    return {"tool_calls": [call | {"function": function}]}


def chat_finish(subject: Subject, part: Part, event: Finished, calls: int) -> Json:
    chunk = _chat_chunk(subject, part, {}, finish_reason(event.stop, calls))
    return chunk | _ending(subject, part, event, streamed=True)


def chat_usage(subject: Subject, event: Finished) -> Json:
    """The chunk of `include_usage`: the nine base timings again, never the draft keys."""
    return _chunk(subject, []) | {"usage": usage(event), "timings": timings.base(event.timings)}


def _whole(subject: Subject, choices: list[Json], kind: str, ended: Ended) -> Json:
    part, event = ended[0]
    return {
        "choices": choices,
        "created": subject.created,
        "model": subject.model,
        "system_fingerprint": subject.build,
        "object": kind,
        "usage": usage(event),
        "id": subject.id,
    } | _ending(subject, part, event, streamed=False)


def _ending(subject: Subject, part: Part, event: Finished, *, streamed: bool) -> Json:
    ending: Json = {"timings": timings.final(event, asked=subject.options.speculation.asked)}
    if not subject.options.verbose:
        return ending
    return {"__verbose": native.final(subject, part, event, streamed=streamed)} | ending


def _timings_per_token(subject: Subject, event: Piece) -> Json:
    return timings.asked(event.timings, wanted=subject.options.timings_per_token)


def _text_choice(subject: Subject, part: Part, event: Finished) -> Json:
    logprobs = {"content": subject.probabilities(*event.pieces)} if subject.options.probs else None
    reason = finish_reason(event.stop)
    return {"text": event.text, "index": part.index, "logprobs": logprobs, "finish_reason": reason}


def _chat_choice(subject: Subject, part: Part, event: Finished) -> Json:
    said = read(event.text, subject.parsing)
    reason = finish_reason(event.stop, len(said.calls))
    choice: Json = {"finish_reason": reason, "index": part.index, "message": _message(subject, said)}
    if subject.options.probs:
        choice["logprobs"] = {"content": subject.probabilities(*event.pieces)}
    return choice


def _message(subject: Subject, said: Message) -> Json:
    message: Json = {"role": "assistant", "content": subject.prefill + said.content}
    if reasoning := subject.prefill_thought + said.reasoning:
        message["reasoning_content"] = reasoning
    if said.calls:
        message["tool_calls"] = [
            {"type": "function", "function": {"name": call.name, "arguments": call.arguments}, "id": call.id}
            for call in said.calls
        ]
    return message


def _text_chunk(
    subject: Subject, part: Part, text: str, logprobs: Mapping[str, object] | None, reason: str | None
) -> Json:
    choice = {"text": text, "index": part.index, "logprobs": logprobs, "finish_reason": reason}
    return {
        "choices": [choice],
        "created": subject.created,
        "model": subject.model,
        "system_fingerprint": subject.build,
        "object": "text_completion",
    }


def _chat_chunk(subject: Subject, part: Part, delta: Json, reason: str | None, logprobs: Sequence[Json] = ()) -> Json:
    choice: Json = {"finish_reason": reason, "index": part.index, "delta": delta}
    if logprobs:
        choice["logprobs"] = {"content": list(logprobs)}
    return _chunk(subject, [choice])


def _chunk(subject: Subject, choices: list[Json]) -> Json:
    return {
        "choices": choices,
        "created": subject.created,
        "id": subject.id,
        "model": subject.model,
        "system_fingerprint": subject.build,
        "object": "chat.completion.chunk",
    }
