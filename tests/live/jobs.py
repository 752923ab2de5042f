"""Requests that differ in length and sampling, and what each of them answers alone."""

from typing import Any

from live.client import Client

Job = dict[str, Any]
WORDS = "A quiet river ran past the old mill where nobody had worked for years , and the wheel still turned ."


def jobs(count: int, tokens: int, longest: int) -> list[Job]:
    """Greedy and seeded by turns; prompts from a few tokens to about `longest`, no two alike."""
    words = WORDS.split()
    made: list[Job] = []
    for n in range(count):
        length = 1 + n * longest // count
        text = " ".join(words[place % len(words)] for place in range(n, n + length))
        sampling = {"temperature": 0} if n % 2 else {"temperature": 0.9, "seed": n}
        common = {"n_predict": tokens, "ignore_eos": True, "return_tokens": True, "cache_prompt": False}
        made.append({"prompt": f"Story {n}: {text}", **sampling, **common})
    return made


async def answer(client: Client, job: Job) -> str:
    return (await client.ask("/completion", job))["content"]


async def streamed(client: Client, job: Job) -> str:
    async with client.stream("/completion", job) as stream:
        await stream.rest()
        assert stream.frames[-1]["stop"] is True
        assert stream.frames[-1]["tokens_predicted"] == job["n_predict"]
        return stream.text
