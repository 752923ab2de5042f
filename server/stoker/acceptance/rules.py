"""The acceptance rules, as pure functions over a few ids and floats. Logits never come here.

All of them are one walk: the first proposal that does not pass ends the chain, and the token that
the device chose for that column is emitted in its place; if all pass, the last column's choice is
the bonus. The device supplies the choices (`models/sampling.py`), the rule supplies the judgement.

Sources: Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding"
(algorithm 1); Chen et al. 2023, "Accelerating Large Language Model Decoding with Speculative
Sampling"; spec/speculative-acceptance.md.
"""

from collections.abc import Sequence

from stoker.acceptance.verdict import Verdict


def match(draft: Sequence[int], choices: Sequence[int]) -> Verdict:
    """Accept a proposal iff it equals the target's own choice for its column.

    `choices` [len(draft) + 1] are argmaxes (greedy-argmax, argmax) or keyed draws from p
    (sampler-match). With draws this is lossless whatever the proposals are: every emitted token is
    the target's draw.
    """
    return _walk(draft, [token == choice for token, choice in zip(draft, choices, strict=False)], choices)


def modified_rejection(
    draft: Sequence[int], p: Sequence[float], q: Sequence[float], u: Sequence[float], choices: Sequence[int]
) -> Verdict:
    """Accept proposal t of column i iff u·q(t) <= p(t): the lossless rule with the highest acceptance.

    `p`, `q`, `u` [len(draft)] are the target's and the drafter's probability of the drafted token and
    a uniform number in (0, 1); `choices` [len(draft) + 1] are draws from normalize(relu(p - q)), the
    last one from p itself. `q` must be the distribution that the proposal was really drawn from.
    """
    passed = [chance * theirs <= ours for ours, theirs, chance in zip(p, q, u, strict=True)]
    return _walk(draft, passed, choices)


def _walk(draft: Sequence[int], passed: Sequence[bool], choices: Sequence[int]) -> Verdict:
    if len(choices) != len(draft) + 1:
        raise ValueError(f"{len(draft)} proposals need {len(draft) + 1} choices, not {len(choices)}")
    accepted = passed.index(False) if False in passed else len(draft)
    tested = min(accepted + 1, len(draft))
    return Verdict((*draft[:accepted], choices[accepted]), accepted, tested)
