"""Replays recorded requests against a server and holds its answers against llama-server's.

    python compat/check.py --url http://127.0.0.1:8080 --profile base

Works on any server. Exit status 1: an answer differs in a way that routes.json does not declare, or
a declared difference no longer occurs, or (with --text) too few greedy texts agree. 2: no server.
"""

import argparse
import asyncio
import inspect
import json
import sys
from collections.abc import Awaitable, Iterable, Sequence, Set
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import httpx

if not __package__:  # run as a file: the repository's root is not on the path yet
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compat import library, table, texts
from compat.answer import Answer, from_http
from compat.gap import Client, gap, post
from compat.library import Case, Divergence
from compat.shape import Comparison, compare
from compat.verdict import Report, judge


@dataclass(frozen=True, slots=True)
class Replay:
    """What one case brought: the observed answer, or the reason why there is none."""

    case: Case
    observed: Answer | None
    comparison: Comparison | None
    failure: str = ""


async def replay(client: Client, cases: Iterable[Case], ignore: Set[str] = frozenset()) -> list[Replay]:
    """Send the cases in their order, one at a time, and compare each answer with its recording.

    `client` has the server's base URL, or `httpx.ASGITransport` to replay in process; name
    `transfer-encoding` in `ignore` then, as no chunks are made there.
    """
    return [await _one(client, case, ignore) for case in cases]


async def _one(client: Client, case: Case, ignore: Set[str]) -> Replay:
    try:
        observed = await send(client, case)
    except httpx.HTTPError as error:
        return Replay(case, None, None, f"{type(error).__name__}: {error}")
    return Replay(case, observed, compare(case.expected, observed, case.context, ignore=ignore))


async def send(client: Client, case: Case) -> Answer:
    """Send a case's request as often as it says; the last answer counts."""
    request = case.request
    headers = dict(request.get("headers", {}))
    content: bytes | None = None
    if "raw" in request:
        content = request["raw"].encode()
    elif "body" in request:
        content = json.dumps(request["body"]).encode()
    if content is not None:
        headers["Content-Type"] = "application/json"
    response = None
    for _ in range(case.context.repeat):
        sent = client.request(request["method"], request["path"], content=content, headers=headers)
        response = await _awaited(sent) if inspect.isawaitable(sent) else sent
    assert response is not None
    return from_http(response.status_code, response.headers, response.content)


async def _awaited(sent: Awaitable[httpx.Response]) -> httpx.Response:
    return await sent


async def tokenizer(client: Client, wanted: Iterable[str]) -> texts.Split | None:
    """Tokens of the given texts by the server's own /tokenize; None where it has none."""
    known: dict[str, Sequence[object]] = {}
    for text in wanted:
        answer = await post(client, "/tokenize", {"content": text})
        if not isinstance(answer, dict) or "tokens" not in answer:
            return None
        known[text] = answer["tokens"]
    return known.__getitem__


async def retell(client: Client, replays: list[Replay]) -> list[Replay]:
    """Count agreement in the server's own tokens, and ask for the gap where a greedy text leaves the recorded one.

    After the replay, so that nothing in it is disturbed.
    """
    agreed = [told for one in replays if one.comparison and (told := one.comparison.agreement)]
    split = await tokenizer(client, {text for told in agreed for text in (told.expected, told.got)})
    return replays if split is None else [await _retold(client, one, split) for one in replays]


async def _retold(client: Client, one: Replay, split: texts.Split) -> Replay:
    if one.comparison is None or one.comparison.agreement is None:
        return one
    told = one.comparison.agreement
    again = texts.agreement(told.expected, told.got, split)
    if one.case.greedy:
        again = replace(again, gap=await gap(client, one.case, again, split))
    return replace(one, comparison=Comparison(one.comparison.differences, again))


def report(replays: Sequence[Replay], declared: Sequence[Divergence], *, complete: bool) -> Report:
    """Judge a replay. `complete`: every case that the profile offers ran, so a silent divergence is stale."""
    seen = [(one.case, one.comparison, one.failure) for one in replays]
    return judge(seen, declared, complete=complete)


def parser() -> argparse.ArgumentParser:
    lines = [f"  {name:11}{library.profile(name).command}" for name in library.PROFILES]
    made = argparse.ArgumentParser(
        prog="compat/check.py",
        description="Replay llama-server's recordings against a server and compare.",
        epilog="The command line that each profile needs:\n" + "\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--url", default="http://127.0.0.1:8080", help="server to check (default: %(default)s)")
    made.add_argument("--profile", default="base", choices=library.PROFILES, help="which recordings (default: base)")
    made.add_argument("--case", action="append", default=[], metavar="NAME", help="only this case (may be repeated)")
    made.add_argument("--all", action="store_true", help="also cases that need features not built yet")
    made.add_argument("--original", action="store_true", help="the server is llama-server: nothing is declared")
    made.add_argument("--text", action="store_true", help="report how far each greedy text agrees, and judge it")
    made.add_argument(
        "--recordings", type=Path, default=library.RECORDINGS, help="made by compat/record.py (default: llama-server's)"
    )
    made.add_argument("--json", action="store_true", help="print the report as JSON")
    made.add_argument("--timeout", type=float, default=120.0, help="seconds a request (default: %(default)s)")
    return made


async def _run(args: argparse.Namespace, chosen: Sequence[Case]) -> Report:
    async with httpx.AsyncClient(base_url=args.url, timeout=args.timeout, trust_env=False) as client:
        await client.request("GET", "/health")
        replays = await replay(client, chosen)
        if args.text:
            replays = await retell(client, replays)
    declared = [] if args.original else library.divergences()
    return report(replays, declared, complete=not args.case)


def _chosen(args: argparse.Namespace) -> list[Case]:
    offered = library.cases(args.profile, None if args.all or args.case else library.features(), args.recordings)
    names: list[str] = args.case
    unknown = set(names) - {case.name for case in offered}
    if unknown:
        raise SystemExit(f"no such case in profile {args.profile}: {', '.join(sorted(unknown))}")
    return [case for case in offered if not names or case.name in names]


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    chosen = _chosen(args)
    if not args.json:
        print(f"profile {args.profile}: {library.profile(args.profile).command}")
    try:
        found = asyncio.run(_run(args, chosen))
    except httpx.TransportError as error:
        print(f"no server at {args.url}: {error}", file=sys.stderr)
        return 2
    if args.json:
        whole: dict[str, Any] = {"url": args.url, "profile": args.profile, **asdict(found)}
        print(json.dumps(whole, ensure_ascii=False, indent=1))
    else:
        print(table.lines(found, with_text=args.text))
    return 0 if found.ok and (found.texts_ok or not args.text) else 1


if __name__ == "__main__":
    sys.exit(main())
