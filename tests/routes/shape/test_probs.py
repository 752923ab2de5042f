"""Probabilities before and after sampling, and numbers as float32 prints them."""

import math

from routes.fakes import ByteTokenizer, piece
from stoker.core.work import TokenProbs
from stoker.routes.shape.probs import entries

TOKENIZER = ByteTokenizer()


def test_logarithms_are_float32_and_never_infinite() -> None:
    probs = TokenProbs(-0.1, ((97, -0.1), (98, -math.inf)))
    (entry,) = entries([piece("a", 1, token=97, probs=probs)], TOKENIZER, post_sampling=False, special=False)
    assert list(entry) == ["id", "token", "bytes", "logprob", "top_logprobs"]
    assert entry["logprob"] == -0.10000000149011612
    assert entry["top_logprobs"][1]["logprob"] == -3.4028234663852886e38  # type: ignore[index]


def test_probabilities_after_sampling_leave_zeros_out() -> None:
    probs = TokenProbs(0.75, ((97, 0.75), (99, 0.25), (98, 0.0)))
    (entry,) = entries([piece("a", 1, token=97, probs=probs)], TOKENIZER, post_sampling=True, special=False)
    assert entry["prob"] == 0.75
    assert [(top["id"], top["prob"]) for top in entry["top_probs"]] == [(97, 0.75), (99, 0.25)]  # type: ignore[index,attr-defined]


def test_pieces_without_probabilities_are_left_out_and_specials_show_on_wish() -> None:
    probs = TokenProbs(0.0, ())
    pieces = [piece("a", 1), piece("", 2, token=258, probs=probs)]
    (hidden,) = entries(pieces, TOKENIZER, post_sampling=False, special=False)
    (shown,) = entries(pieces, TOKENIZER, post_sampling=False, special=True)
    assert (hidden["token"], hidden["bytes"]) == ("", [])
    assert shown["token"] == "<|im_end|>"
