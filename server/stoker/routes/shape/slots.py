"""`/slots`: one entry a slot."""

from stoker.routes.body import Json
from stoker.routes.shape.settings import short
from stoker.scheduler.views import SlotView


def slot(view: SlotView, context: int, *, speculative: bool, debug: bool) -> Json:
    """Four keys for a slot that was never used. `debug` shows all 49 settings. The last two keys are our own."""
    entry: Json = {"id": view.id, "n_ctx": context, "speculative": speculative, "is_processing": view.busy}
    if view.task is None:
        return entry
    return entry | {
        "id_task": view.task,
        "n_prompt_tokens": view.content,
        "n_prompt_tokens_processed": view.processed,
        "n_prompt_tokens_cache": view.cached,
        "params": dict(view.report) if debug else short(view.report),
        "next_token": [
            {
                "has_next_token": view.busy,
                "has_new_line": view.has_new_line,
                "n_remain": view.remaining,
                "n_decoded": view.decoded,
            }
        ],
        "draft_kind": view.draft_kind,
        "draft_off": view.draft_off,
    }
