"""Every recording that uses what is built is replayed through the routes and comes out as recorded.

The scheduler is a script made from the recording itself, so what is tested is everything around it: parsing,
defaults, shapes, key order, frames, statuses, messages.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from compat import check, library
from compat.library import Case
from routes.fakes import INFO, SMOLLM2, Bench, FakeScheduler, progress
from stoker.core.counters import DraftSummary, Kind
from stoker.core.errors import ContextExceeded
from stoker.core.events import Embedded, Event, Finished, Piece, StopType, Tokens
from stoker.core.request import Pooling, Request
from stoker.core.timings import Timings
from stoker.core.work import TokenProbs
from stoker.options.arguments import parse
from stoker.options.drafting import Drafting
from stoker.routes.service import Edge, Switches
from stoker.scheduler.views import SlotView, Totals
from stoker.settings import options, settings
from stoker.text.fim import FimTokens
from stoker.text.template import ChatTemplate

FEATURES = library.features()
CONTEXT = 1024


@dataclass
class RecordedTokenizer:
    """Knows the texts of the recordings: as many ids as recorded, the recorded ones where they are told."""

    vocab: int = 49152
    adds_bos: bool = False
    bos_text: str = "<|im_start|>"
    eos_text: str = "<|im_end|>"
    end_ids: tuple[int, ...] = (0, 2, 4)
    fim: FimTokens = field(default_factory=FimTokens)
    texts: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    pieces: dict[int, bytes] = field(
        default_factory=lambda: {1: b"<|im_start|>", 2: b"<|im_end|>", 198: b"\n", 4093: b"user"}
    )

    def learn(self, text: str, ids: Iterable[int]) -> None:
        """Ids without a piece of their own spell the text by their first one."""
        self.texts[text] = tuple(ids)
        if any(id not in self.pieces for id in self.texts[text]):
            self.pieces |= dict.fromkeys(self.texts[text], b"")
            self.pieces[self.texts[text][0]] = text.encode()

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        return list(self.texts[text])

    def piece(self, id: int, *, special: bool = True) -> bytes:
        return self.pieces[id]

    def decode(self, ids: list[int], *, special: bool = True) -> bytes:
        return b"".join(self.pieces[id] for id in ids)


def learn(case: Case, template: ChatTemplate, tokenizer: RecordedTokenizer, fresh: int) -> None:
    """Take from a recording which text has how many tokens, and the tokens that it shows."""
    body, answer = case.request.get("body"), case.expected
    if not isinstance(body, dict) or answer.form == "text":
        return
    shown: Any = answer.body if answer.form == "json" else [frame.data for frame in answer.frames]
    if case.request["path"] == "/tokenize" and "content" in body:
        ids = [token["id"] if isinstance(token, dict) else token for token in shown["tokens"]]
        _spell(ids, body["content"], tokenizer)
        tokenizer.texts[body["content"]] = tuple(ids)
    elif case.request["path"] == "/detokenize" and "tokens" in body:
        _spell(body["tokens"], shown["content"], tokenizer)
    elif "embedding" in case.request["path"]:
        texts = body.get("input", body.get("content"))
        for text in [texts] if isinstance(texts, str) else texts or []:
            if isinstance(text, str) and text not in tokenizer.texts:
                tokenizer.learn(text, range(fresh, fresh + len(text.split())))
    elif (count := _prompt_tokens(shown)) is not None:
        prompt = body.get("prompt")
        messages = body.get("messages", [{"role": "user", "content": body.get("input")}])
        text = template.render(messages) if prompt is None else prompt
        if isinstance(text, str) and text not in tokenizer.texts:
            tokenizer.learn(text, range(fresh, fresh + count))


def _spell(ids: list[int], text: str, tokenizer: RecordedTokenizer) -> None:
    """Where nothing tells a piece, it is the text up to the next piece that is known."""
    rest = text.encode()
    for place, id in enumerate(ids):
        if id not in tokenizer.pieces:
            known = [tokenizer.pieces[later] for later in ids[place + 1 :] if tokenizer.pieces.get(later)]
            end = rest.index(known[0]) if known else len(rest)
            tokenizer.pieces[id] = rest[:end]
        rest = rest.removeprefix(tokenizer.pieces[id])


def _learn_pieces(value: Any, tokenizer: RecordedTokenizer) -> None:
    if isinstance(value, list):
        for item in value:
            _learn_pieces(item, tokenizer)
    elif isinstance(value, dict):
        if isinstance(value.get("id"), int) and "bytes" in value:
            tokenizer.pieces[value["id"]] = bytes(value["bytes"])
        elif isinstance(value.get("id"), int) and "piece" in value:
            piece = value["piece"]
            tokenizer.pieces[value["id"]] = piece.encode() if isinstance(piece, str) else bytes(piece)
        for item in value.values():
            _learn_pieces(item, tokenizer)


def _prompt_tokens(shown: Any) -> int | None:
    last = shown
    if isinstance(shown, list):
        objects = [item for item in shown if isinstance(item, dict) and ("usage" in item or "tokens_evaluated" in item)]
        last = objects[-1] if objects else {}
    if "input_tokens" in last:
        return last["input_tokens"]
    usage = last.get("usage", {})
    if "input_tokens" in usage:
        return usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)
    return last.get("tokens_evaluated", usage.get("prompt_tokens"))


def script(case: Case) -> Any:
    """The events that the recorded server's engine must have sent."""
    answer = case.expected

    def events(request: Request) -> Iterable[Event]:
        index = events_seen.setdefault(request.arrived, [])
        index.append(request.id)
        if request.pooling is not None:
            yield _embedded(answer.body, len(index) - 1)
        elif answer.form == "frames":
            yield from _streamed([frame.data for frame in answer.frames], request)
        else:
            yield progress(request)
            yield _whole(answer.body, len(index) - 1, request)

    events_seen: dict[float, list[int]] = {}
    return events


def _timings(value: dict[str, Any]) -> Timings:
    return Timings(value["cache_n"], value["prompt_n"], value["prompt_ms"], value["predicted_n"], value["predicted_ms"])


def _draft(value: dict[str, Any]) -> DraftSummary | None:
    if "draft_n" not in value:
        return None
    made, accepted = value["draft_n"], value["draft_n_accepted"]
    return DraftSummary(Kind.DRAFT_MODEL, made, made, accepted, 1)


def _probs(entry: dict[str, Any]) -> TokenProbs:

    if "prob" in entry:
        return TokenProbs(entry["prob"], tuple((one["id"], one["prob"]) for one in entry["top_probs"]))
    return TokenProbs(entry["logprob"], tuple((one["id"], one["logprob"]) for one in entry["top_logprobs"]))


def _whole(body: Any, index: int, request: Request) -> Finished:
    body = body[index] if isinstance(body, list) else body
    if "output_tokens" in body.get("usage", {}):
        return _foreign(body, request)
    if "choices" not in body:
        timed = body.get("timings", {})
        count = body.get("tokens_predicted", timed.get("predicted_n", 2))
        entries = body.get("completion_probabilities", [])
        text, stop = body["content"], StopType(body.get("stop_type", "limit"))
        word, slot = body.get("stopping_word", ""), body.get("id_slot", 1)
        tokens = tuple(body.get("tokens", ())) or (7,) * count
    else:
        choice, timed = body["choices"][min(index, len(body["choices"]) - 1)], body["timings"]
        text = choice["message"]["content"] if "message" in choice else choice["text"]
        entries = (choice.get("logprobs") or {}).get("content", [])
        stop = StopType.LIMIT if choice["finish_reason"] == "length" else StopType.EOS
        word, slot, tokens = "", body.get("__verbose", {}).get("id_slot", 1), (7,) * timed["predicted_n"]
    measured = _timings(timed) if "cache_n" in timed else Timings(0, len(request.prompt), 1.0, len(tokens), 1.0)
    pieces = tuple(Piece(entry["id"], entry["token"], 1, measured, _probs(entry)) for entry in entries)
    return Finished(
        stop=stop,
        stopping_word=word,
        text=text,
        tokens=tokens,
        pieces=pieces,
        slot=slot,
        prompt_tokens=len(request.prompt),
        cached_tokens=measured.cached,
        truncated=False,
        has_new_line=body.get("has_new_line", False),
        timings=measured,
        draft=_draft(timed),
    )


def _embedded(body: Any, index: int) -> Embedded:
    """What was recorded is normalised, which changes it no more."""
    if isinstance(body, list):
        return Embedded((tuple(body[index]["embedding"][0]),), 2)
    return Embedded((tuple(body["data"][index]["embedding"]),), body["usage"]["prompt_tokens"] // len(body["data"]))


def _foreign(body: Any, request: Request) -> Finished:
    """Of a response or a message of Anthropic's."""
    usage, blocks = body["usage"], body.get("content") or body["output"][0]["content"]
    cached = usage.get("cache_read_input_tokens", usage.get("input_tokens_details", {}).get("cached_tokens"))
    stop = StopType.EOS if body.get("stop_reason") == "end_turn" else StopType.LIMIT
    count = usage["output_tokens"]
    return Finished(
        stop=stop,
        stopping_word="",
        text=blocks[0]["text"],
        tokens=(7,) * count,
        pieces=(),
        slot=1,
        prompt_tokens=len(request.prompt),
        cached_tokens=cached,
        truncated=False,
        has_new_line=False,
        timings=Timings(cached, len(request.prompt) - cached, 1.0, count, 1.0),
    )


def _streamed(data: list[Any], request: Request) -> Iterable[Event]:
    objects = [item for item in data if isinstance(item, dict)]
    if not any("prompt_progress" in item for item in objects):
        yield progress(request)
    count = 0
    for item in objects:
        if "prompt_progress" in item:
            seen = item["prompt_progress"]
            yield type(progress(request))(seen["total"], seen["cache"], seen["processed"], seen["time_ms"])
            continue
        text, ended = _text(item)
        if text is not None and not ended:
            count += 1
            token = item["tokens"][0] if "tokens" in item else 7
            yield Tokens((Piece(token, text, count, _timings(item.get("timings", _last_timings(objects)))),))
    yield _end(objects, count, request)


def _text(item: dict[str, Any]) -> tuple[str | None, bool]:
    if "content" in item:
        return item["content"], item["stop"]
    if not item["choices"]:
        return None, True
    choice = item["choices"][0]
    text = choice["text"] if "text" in choice else choice["delta"].get("content")
    return text, choice["finish_reason"] is not None


def _last_timings(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return next(item["timings"] for item in reversed(objects) if "timings" in item)


def _end(objects: list[dict[str, Any]], count: int, request: Request) -> Finished:
    last, measured = objects[-1], _timings(_last_timings(objects))
    return Finished(
        stop=StopType(last.get("stop_type", "limit")),
        stopping_word=last.get("stopping_word", ""),
        text="",
        tokens=(7,) * measured.predicted,
        pieces=(),
        slot=last.get("id_slot", 1),
        prompt_tokens=len(request.prompt),
        cached_tokens=measured.cached,
        truncated=False,
        has_new_line=last.get("has_new_line", False),
        timings=measured,
        draft=_draft(_last_timings(objects)),
    )


class Replayed(FakeScheduler):
    """Refuses what does not fit, as the real one does."""

    def submit(self, request: Request) -> Any:
        if len(request.prompt) >= CONTEXT:
            raise ContextExceeded(len(request.prompt), CONTEXT)
        return super().submit(request)


def built(profile: str) -> list[Case]:
    return library.cases(profile, FEATURES)


def bench_for(case: Case, template: ChatTemplate, tokenizer: RecordedTokenizer) -> Bench:
    args = library.profile(case.id.split("/")[0]).server_args
    switches = Switches(slots="--no-slots" not in args, props="--props" in args, metrics="--metrics" in args)
    keys = (args[args.index("--api-key") + 1],) if "--api-key" in args else ()
    slots = library.profile(case.id.split("/")[0]).slots
    scheduler = Replayed(script(case))
    scheduler.views = scheduler.views[:slots]
    drafting = _drafting(args)
    if drafting.kind is not None:
        scheduler.views = [SlotView(0, content=27, task=37, draft_kind=drafting.kind)]
        scheduler.sums = Totals(accepted_by_position=(2,) * drafting.most)
    context = int(args[args.index("-c") + 1]) // slots if "-c" in args else CONTEXT
    changes = {
        "switches": switches,
        "slots": slots,
        "info": _INFO,
        "context": context,
        "speculative_types": drafting.types,
        "about": drafting.about(),
        "pooling": Pooling.MEAN if "--embeddings" in args else None,
        "slot_save_path": "TMP" if "--slot-save-path" in args else "",
    }
    return Bench(scheduler, Edge(keys=keys), template, tokenizer, changes)


def _drafting(args: tuple[str, ...]) -> Drafting:
    """What a profile's command line says of drafting, as the server reads it; all of them name a model."""
    speaking = args[: args.index("--metrics")] if "--spec-type" in args else ()
    return settings(parse(("-m", "MODEL.gguf", *speaking), {}, options()).given, {}).drafting()


_INFO = type(INFO)("MODEL.gguf", "llama", "Q4_1", 49152, 8192, 576, 134515008, 96576768)
PROFILES = ("base", "api_key", "off", "draft", "ngram", "slot_save", "embeddings")


@pytest.mark.parametrize("profile", PROFILES)
async def test_every_recording_comes_out_as_recorded(profile: str) -> None:
    template = ChatTemplate(SMOLLM2, "<|im_start|>", "<|im_end|>")
    tokenizer = RecordedTokenizer()
    for case in library.cases(profile):
        _learn_pieces(case.expected.body, tokenizer)
    for number, case in enumerate(library.cases(profile)):
        learn(case, template, tokenizer, 10_000 + 320 * number)
    replays: list[check.Replay] = []
    for case in built(profile):
        if "overflow" in case.name:
            tokenizer.texts[case.request["body"]["prompt"]] = (7,) * 3001
        client = bench_for(case, template, tokenizer).client
        replays += await check.replay(client, [case], frozenset({"transfer-encoding"}))
    report = check.report(replays, library.divergences(), complete=True)
    wrong = {
        outcome.case: [one.difference for one in outcome.findings if not one.declared] or outcome.failure
        for outcome in report.outcomes
        if outcome.verdict not in ("equal", "declared")
    }
    assert wrong == {}
    assert report.stale == ()
