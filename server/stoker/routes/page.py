"""The page at /: what runs here, in what state, and where its routes are. All of the server's user interface."""

from html import escape

from fastapi import APIRouter
from starlette.responses import Response

from stoker.core.errors import NotFound
from stoker.routes.errors import NO_SUCH_ROUTE, outer_response
from stoker.routes.respond import plain_response
from stoker.routes.service import Service, State
from stoker.routes.verbs import READ

LINKS = ("v1/models", "props", "health")
PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Stoker{title}</title>
<style>body{{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}}
td{{padding-right:1.5rem;vertical-align:top}}</style></head>
<body>
<h1>Stoker</h1>
<p>An inference server that speaks llama-server's protocol. This page is all of its user interface.</p>
<table>
{rows}</table>
<p>{links}</p>
</body>
</html>
"""


def router(state: State) -> APIRouter:
    routes = APIRouter()

    @routes.api_route("/", methods=READ)
    @routes.api_route("/index.html", methods=READ)
    async def page() -> Response:
        if not state.edge.ui:
            return outer_response(NotFound(NO_SUCH_ROUTE))
        return plain_response(render(state.service).encode(), "text/html; charset=utf-8")

    return routes


def render(service: Service | None) -> str:
    """None: the model is still being loaded."""
    facts = {"State": condition(service), **(_facts(service) if service is not None else {})}
    rows = "".join(f"<tr><td>{name}</td><td>{escape(fact)}</td></tr>\n" for name, fact in facts.items())
    links = [*LINKS, *_optional(service)]
    return PAGE.format(
        title=f": {escape(service.model)}" if service is not None else "",
        rows=rows,
        links=" · ".join(f'<a href="{link}">/{link}</a>' for link in links),
    )


def condition(service: Service | None) -> str:
    if service is None:
        return "loading the model"
    if not service.scheduler.healthy:
        return "the engine has stopped"
    if service.scheduler.sleeping:
        return "asleep: the next request loads the model again"
    busy = sum(view.busy for view in service.scheduler.slots())
    return f"ready, {busy} of {service.slots} slots busy"


def _facts(service: Service) -> dict[str, str]:
    info = service.info
    return {
        "Model": service.model,
        "Weights": f"{info.family}, {info.ftype}, {info.parameters / 1e6:.0f} million parameters",
        "Context": f"{service.context} tokens in each of {service.slots} slots",
        "Drafting": service.speculative_types,
        "Build": service.build,
    }


def _optional(service: Service | None) -> list[str]:
    if service is None:
        return []
    shown = {"slots": service.switches.slots, "metrics": service.switches.metrics}
    return [*(link for link, on in shown.items() if on), *(["lora-adapters"] if service.adapters.paths else [])]
