"""`/props`: what is served, and the defaults of a request; at its end an object of our own."""

from stoker.core.info import BudgetView
from stoker.routes.body import Json
from stoker.routes.schema.job import Options
from stoker.routes.service import Edge, Service
from stoker.routes.shape.settings import generation_settings, short


def props(service: Service, edge: Edge, media_marker: str) -> Json:
    options = Options(
        reasoning_format="none",
        keep=service.defaults.keep,
        ignore_eos=service.defaults.ignore_eos,
        backend_sampling=service.defaults.backend_sampling,
    )
    settings = generation_settings(service.sampling, service.limits, options, "none")
    return {
        "default_generation_settings": {"params": short(settings), "n_ctx": service.context},
        "total_slots": service.slots,
        "model_alias": service.model,
        "model_ftype": service.info.ftype,
        "model_path": service.info.path,
        "modalities": {"vision": False, "video": False, "audio": False},
        "media_marker": media_marker,
        "endpoint_slots": service.switches.slots,
        "endpoint_props": service.switches.props,
        "endpoint_metrics": service.switches.metrics,
        "ui": edge.ui,
        "ui_settings": {},
        "chat_template": service.template.source,
        "chat_template_caps": service.template.caps.as_dict(),
        "bos_token": service.tokenizer.bos_text,
        "eos_token": service.tokenizer.eos_text,
        "build_info": service.build,
        "is_sleeping": service.scheduler.sleeping,
        "cors_proxy_enabled": False,
        "stoker": {**service.about, **_budget(service.budget())},
    }


def _budget(view: BudgetView | None) -> Json:
    """What ticks cost, in milliseconds by drafters and `rows x columns`, and what was decided."""
    if view is None:
        return {}
    costs: dict[str, dict[str, float]] = {}
    for cost in view.costs:
        costs.setdefault(cost.drafters, {})[f"{cost.rows}x{cost.width}"] = round(1e3 * cost.seconds, 3)
    drafters = {
        it.drafters: {
            "standing": it.standing,
            "gain": round(it.gain, 3),
            "width": it.width,
            "requests": it.requests,
            "acceptance": [round(p, 4) for p in it.acceptance],
        }
        for it in view.verdicts
    }
    shown: Json = {"tick_ms": costs, "ticks_by_width": dict(view.ticks), "declined": view.declined}
    return {"budget": {**shown, "drafters": drafters}}
