"""What the model thought of each token: `completion_probabilities` and OpenAI's `logprobs`."""

import math
from collections.abc import Iterable

from stoker.core.events import Piece
from stoker.core.work import TokenProbs
from stoker.routes.body import Json
from stoker.routes.schema.fields import FLOAT_MAX, widen
from stoker.routes.service import Tokenizer


def entries(pieces: Iterable[Piece], tokenizer: Tokenizer, *, post_sampling: bool, special: bool) -> list[Json]:
    """One entry for each piece that carries probabilities. Logarithms, or probabilities after sampling."""
    describe = _after_sampling if post_sampling else _before_sampling
    return [describe(piece.token, piece.probs, tokenizer, special) for piece in pieces if piece.probs is not None]


def _before_sampling(token: int, probs: TokenProbs, tokenizer: Tokenizer, special: bool) -> Json:
    top = [_named(id, tokenizer, special) | {"logprob": _log(value)} for id, value in probs.top]
    return _named(token, tokenizer, special) | {"logprob": _log(probs.logprob), "top_logprobs": top}


def _after_sampling(token: int, probs: TokenProbs, tokenizer: Tokenizer, special: bool) -> Json:
    """Alternatives of probability zero are left out."""
    top = [_named(id, tokenizer, special) | {"prob": widen(chance)} for id, chance in probs.top if chance > 0]
    return _named(token, tokenizer, special) | {"prob": widen(probs.logprob), "top_probs": top}


def _named(token: int, tokenizer: Tokenizer, special: bool) -> Json:
    piece = tokenizer.piece(token, special=special)
    return {"id": token, "token": piece.decode("utf-8", "replace"), "bytes": list(piece)}


def _log(value: float) -> float:
    return widen(value) if math.isfinite(value) else -FLOAT_MAX
