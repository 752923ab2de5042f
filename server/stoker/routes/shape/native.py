"""Events in the shape of `/completion`."""

from collections.abc import Mapping

from stoker.core.events import Finished, Piece, Progress
from stoker.routes.body import Json, members
from stoker.routes.shape import timings
from stoker.routes.shape.subject import Part, Subject

NO_SLOT = -1
"""`id_slot` on every frame but the last."""


def progress(subject: Subject, part: Part, event: Progress) -> Json:
    """A frame of `return_progress`: an empty token and how much of the prompt is read."""
    return _frame(part, "", 0, 0) | prompt_progress(subject, event)


def prompt_progress(subject: Subject, event: Progress) -> Json:
    """What `return_progress` adds to a frame of whatever shape."""
    progress = {
        "total": event.total,
        "cache": event.cached,
        "processed": event.processed,
        "time_ms": round(event.elapsed_ms),
    }
    return timings.asked(event.timings, wanted=subject.options.timings_per_token) | {"prompt_progress": progress}


def piece(subject: Subject, part: Part, event: Piece) -> Json:
    """One token. Timings where asked for, and unasked on the token that completes a stop string."""
    frame = _frame(part, event.text, event.token, event.count)
    if subject.options.timings_per_token or event.completes_stop:
        frame["timings"] = timings.base(event.timings)
    if event.probs is not None:
        frame["completion_probabilities"] = subject.probabilities(event)
    return frame


def final(subject: Subject, part: Part, event: Finished, *, streamed: bool) -> Json:
    """The whole answer; as a stream's last frame without what the frames before it have said."""
    options = subject.options
    answer: Json = {
        "index": part.index,
        "content": "" if streamed else event.text,
        "tokens": list(event.tokens) if options.return_tokens and not streamed else [],
        "id_slot": event.slot,
        "stop": True,
        "model": subject.model,
        "tokens_predicted": len(event.tokens),
        "tokens_evaluated": event.prompt_tokens,
        "generation_settings": dict(part.settings),
        "prompt": subject.tokenizer.decode(list(part.prompt), special=True).decode("utf-8", "replace"),
        "has_new_line": event.has_new_line,
        "truncated": event.truncated,
        "stop_type": str(event.stop),
        "stopping_word": event.stopping_word,
        "tokens_cached": event.tokens_in_slot,
        "timings": timings.final(event, asked=options.speculation.asked),
    }
    if options.probs and not streamed:
        answer["completion_probabilities"] = subject.probabilities(*event.pieces)
    return pick(answer, options.response_fields) if options.response_fields else answer


def pick(answer: Mapping[str, object], paths: tuple[str, ...]) -> Json:
    """Only the members that the paths (`a/b/c`) name, each under its whole path; unknown paths are left out."""
    found: Json = {}
    for path in paths:
        value: object = answer
        for step in path.split("/"):
            inside = members(value)
            if step not in inside:
                break
            value = inside[step]
        else:
            found[path] = value
    return found


def _frame(part: Part, text: str, token: int, count: int) -> Json:
    return {
        "index": part.index,
        "content": text,
        "tokens": [token],
        "stop": False,
        "id_slot": NO_SLOT,
        "tokens_predicted": count,
        "tokens_evaluated": len(part.prompt),
    }
