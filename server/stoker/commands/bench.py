"""`stoker bench`: drives a running server over HTTP and says how fast it is, alone or against another one.

Both servers run during the whole measurement and take turns (ABBA), so that whatever drifts on the
machine meets both. Every prompt is new to both, so no prefix cache helps.

Scenarios: `decode`, rates by class and concurrency; `overhead`, the same turns, of which only what they cost
outside the device's work is told; `burst` and `long-prompt`, see `bench_scenarios`.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
from tqdm import tqdm

from stoker.commands import bench_report, bench_scenarios
from stoker.commands.bench_plan import CLASSES, OURS, THEIRS, Arm, Ask, read_book, turns
from stoker.commands.bench_run import Block, Runner, identity, reachable
from stoker.commands.bench_scenarios import SCENARIOS, ScenarioError, Scene
from stoker.core import clock
from stoker.core.build import build_info

DECODE, OVERHEAD = "decode", "overhead"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scenario", choices=(DECODE, OVERHEAD, *SCENARIOS), default=DECODE, help="what to do (default: %(default)s)"
    )
    parser.add_argument(
        "--requests", type=_count, metavar="N", help="requests of a burst, streams beside a long prompt (16, 4)"
    )
    parser.add_argument(
        "--prompt-tokens", type=_count, metavar="N", help="of a burst's prompt, of the long one (30, 2000)"
    )
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="server to measure (default: %(default)s)")
    parser.add_argument("--api", choices=("llama", "openai"), default="llama", help="its API (default: %(default)s)")
    parser.add_argument("--against", metavar="URL", help="a second server, measured in alternation")
    parser.add_argument(
        "--against-api", choices=("llama", "openai"), default="llama", help="API of the second (default: %(default)s)"
    )
    parser.add_argument("--model", default="", metavar="NAME", help="model name that the second server wants")
    parser.add_argument("--api-key", default="", metavar="KEY", help="key of the server at --url")
    parser.add_argument(
        "--classes", type=_classes, default=None, help=f"prompt classes (default: {','.join(CLASSES)}, or the file's)"
    )
    parser.add_argument(
        "--prompts", type=_book, metavar="FILE", help="your own prompts, for the chat route: lines of {class, prompt}"
    )
    parser.add_argument("--seed", type=int, default=-1, help="seed of every request (default: none)")
    parser.add_argument("--concurrency", type=_counts, default=(1, 4), metavar="N,…", help="streams (default: 1,4)")
    parser.add_argument("--predict", type=_count, default=64, metavar="N", help="tokens a request (default: 64)")
    parser.add_argument("--temperature", type=float, default=0.0, help="default: 0")
    parser.add_argument(
        "--rounds", type=_count, default=6, help="measured turns a class, arm, concurrency (default: 6)"
    )
    parser.add_argument(
        "--each", type=_count, default=1, metavar="N", help="requests a stream sends in a turn, one by one (default: 1)"
    )
    parser.add_argument("--warm-up", type=int, default=1, help="turns dropped before them (default: 1)")
    parser.add_argument("--max-seconds", type=float, default=600.0, help="start no turn after this (default: 600)")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds without a byte (default: 120)")
    parser.add_argument("--json", metavar="FILE", help="write everything, raw samples included, to FILE")


def run(namespace: argparse.Namespace, _environ: Mapping[str, str] = MappingProxyType({})) -> int:
    """Measure, print the table; 1 if no server answers or any request failed."""
    return asyncio.run(measured(namespace))


async def measured(
    args: argparse.Namespace, transport: httpx.AsyncBaseTransport | None = None, now: clock.Clock = clock.now
) -> int:
    """`run` inside a running loop; a `transport` stands in for the network in tests."""
    arms = _arms(args)
    classes = args.classes or tuple(args.prompts or CLASSES)
    if unknown := set(classes) - set(args.prompts or CLASSES):
        known = ", ".join(args.prompts or CLASSES)
        print(f"stoker bench: unknown class {', '.join(sorted(unknown))}; known: {known}", file=sys.stderr)
        return 1
    if args.scenario in SCENARIOS and (args.against or args.api != "llama"):
        print(f"stoker bench: --scenario {args.scenario} measures one server, by llama-server's API", file=sys.stderr)
        return 1
    async with AsyncExitStack() as stack:
        clients = {arm.name: await stack.enter_async_context(_client(arm, args.timeout, transport)) for arm in arms}
        for arm in arms:
            if complaint := await reachable(clients[arm.name], arm):
                print(f"stoker bench: {complaint}", file=sys.stderr)
                return 1
        if args.scenario in SCENARIOS:
            return await _play(args, clients[OURS], arms[0], now)
        plans = [
            (streams, list(turns(arms, classes, streams, args.rounds, args.warm_up, args.each)))
            for streams in args.concurrency
        ]
        servers = {arm.name: await identity(clients[arm.name], arm) for arm in arms}
        with tqdm(total=sum(len(plan) for _, plan in plans), unit="turn", file=sys.stderr, disable=None) as bar:
            ask = Ask(args.predict, args.temperature, args.prompts, args.seed)
            runner = Runner(clients, ask, now, now() + args.max_seconds, bar.update)
            blocks = [await runner.block(streams, plan) for streams, plan in plans]
    return _tell(args, blocks, servers)


async def _play(args: argparse.Namespace, client: httpx.AsyncClient, arm: Arm, now: clock.Clock) -> int:
    scenario = SCENARIOS[args.scenario]
    scene = Scene(client, now, args.requests or scenario.requests, args.prompt_tokens or scenario.tokens)
    server = await identity(client, arm)
    try:
        found = await bench_scenarios.play(scenario, scene, args.rounds, args.warm_up)
    except ScenarioError as error:
        print(f"stoker bench: {error}", file=sys.stderr)
        return 1
    print(f"{args.scenario}: {scene.requests} requests, {scene.tokens} prompt tokens, {args.rounds} rounds")
    print(bench_scenarios.table(found))
    if args.json:
        _write(args.json, {**_host(args), "servers": {OURS: server}, "rounds": found})
    return 0


def _write(file: str, whole: dict[str, Any]) -> None:
    Path(file).write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def _tell(args: argparse.Namespace, blocks: Sequence[Block], servers: dict[str, dict[str, Any]]) -> int:
    found = bench_report.rows(blocks)
    costs = args.scenario == OVERHEAD
    print(bench_report.costs(blocks) if costs else bench_report.table(found, blocks))
    for note in bench_report.notes(found, blocks):
        print(f"note: {note}")
    for row in found:
        equal, compared = row.equal_texts
        if compared and (args.temperature == 0 or args.seed >= 0):
            print(f"{row.group} at {row.concurrency}: {equal} of {compared} texts equal on both servers")
    if args.json:
        _write(args.json, bench_report.as_json(found, blocks, {**_host(args), "servers": servers}))
    failed = any(sample.failure for block in blocks for done in block.done for sample in done.samples)
    untold = costs and not all(block.overhead for block in blocks)
    return 1 if failed or untold or not found else 0


def _arms(args: argparse.Namespace) -> tuple[Arm, ...]:
    ours = Arm(OURS, args.url, args.api, key=args.api_key)
    if not args.against:
        return (ours,)
    return ours, Arm(THEIRS, args.against, args.against_api, model=args.model)


def _client(arm: Arm, timeout: float, transport: httpx.AsyncBaseTransport | None) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {arm.key}"} if arm.key else {}
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(
        base_url=arm.url, headers=headers, timeout=timeout, transport=transport, limits=limits, trust_env=False
    )


def _host(args: argparse.Namespace) -> dict[str, Any]:
    flags = {
        name: value
        for name, value in vars(args).items()
        if name not in ("api_key", "json", "prompts") and not callable(value)
    }
    return {
        "stoker": build_info(),
        "machine": {
            "system": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "python": platform.python_version(),
        },
        "flags": flags,
    }


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


def _classes(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _book(file: str) -> dict[str, list[str]]:
    try:
        return read_book(Path(file).read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{file}: {error}") from None
