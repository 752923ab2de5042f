"""`timings`: nine keys on every final answer, four more where speculation ran, or one that says why it did not."""

from stoker.core.events import Finished
from stoker.core.timings import Timings
from stoker.routes.body import Json


def base(timings: Timings) -> Json:
    return {
        "cache_n": timings.cached,
        "prompt_n": timings.prompt,
        "prompt_ms": timings.prompt_ms,
        "prompt_per_token_ms": timings.prompt_per_token_ms,
        "prompt_per_second": timings.prompt_per_second,
        "predicted_n": timings.predicted,
        "predicted_ms": timings.predicted_ms,
        "predicted_per_token_ms": timings.predicted_per_token_ms,
        "predicted_per_second": timings.predicted_per_second,
    }


def asked(timings: Timings, *, wanted: bool) -> Json:
    """The member of a middle frame, where `timings_per_token` wants it."""
    return {"timings": base(timings)} if wanted else {}


def final(event: Finished, *, asked: bool) -> Json:
    """The nine keys, and the draft keys if a verify round ran; if none did, the reason where the request `asked`."""
    timings, draft = base(event.timings), event.draft
    if draft is None:
        return timings | {"draft_off": event.draft_off} if asked and event.draft_off else timings
    return timings | {
        "draft_n": draft.proposed,
        "draft_n_accepted": draft.accepted,
        "draft_rounds": draft.rounds,
        "draft_kind": draft.kind,
    }
