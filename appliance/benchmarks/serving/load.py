"""Sends requests to a server at a given rate, whether it keeps up or not, and records the times of its answers."""

import asyncio
import os
import random
import re
import socket
import ssl
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from appliance.adapters import json_answers
from appliance.benchmarks.serving.http import Server, lines
from appliance.benchmarks.serving.request import Request
from appliance.benchmarks.serving.stream import Refused, StreamedAnswer

WORDS = (
    "river",
    "stone",
    "lamp",
    "paper",
    "garden",
    "bridge",
    "window",
    "market",
    "silver",
    "winter",
    "engine",
    "forest",
    "harbour",
    "letter",
    "mirror",
    "orange",
    "planet",
    "ticket",
    "valley",
    "yellow",
    "anchor",
    "button",
    "candle",
    "desert",
    "finger",
    "guitar",
    "hammer",
    "island",
    "jacket",
    "kitchen",
)
MOST_OPEN = 1024
MODELS_S = 15.0


@dataclass(frozen=True)
class CompletedRequest:
    """One good answer: s until its first text, between texts, and until its end; tokens out and in."""

    first: float
    gaps: tuple[float, ...]
    total: float
    tokens: int
    prompt: int | None


@dataclass(frozen=True)
class Level:
    """One rate. ``span``: s from the first request to the last, ``seconds``: to the last answer; ``late``: the client's worst."""

    rate: float
    span: float
    seconds: float
    late: float
    done: tuple[CompletedRequest, ...]
    refused: Counter[str]

    @property
    def asked(self) -> int:
        """All requests."""
        return len(self.done) + sum(self.refused.values())


def levels(at: Server, asked: Request) -> tuple[str, tuple[Level, ...]]:
    """Returns the model and its levels, lowest rate first. If a level has no answers, no higher rate is tried.

    Raises Refused or OSError if the server lists no model, or cannot be reached.
    """
    return asyncio.run(_levels(at, asked))


async def _levels(at: Server, asked: Request) -> tuple[str, tuple[Level, ...]]:
    model = asked.model or await asyncio.wait_for(_first_model(at), MODELS_S)
    found = []
    for rate in sorted(asked.rates):
        found.append(await level(at, asked, model, rate))
        if not found[-1].done:
            break
    return model, tuple(found)


async def _first_model(at: Server) -> str:
    text = b"\n".join([line async for line in lines(at, "GET", "/models")])
    try:
        document = json_answers.parsed(text.decode())
    except ValueError:
        raise Refused("its list of models is not JSON") from None
    data = document.get("data") if isinstance(document, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    name = first.get("id") if isinstance(first, dict) else None
    if not isinstance(name, str) or not name:
        raise Refused("it lists no model")
    return name


async def level(at: Server, asked: Request, model: str, rate: float) -> Level:
    """Sends requests at random times (a Poisson process, the same on each run); none waits for an answer."""
    chance = random.Random(f"appliance:{rate}")
    moments, moment = [], 0.0
    for _ in range(asked.count(rate)):
        moments.append(moment)
        moment += chance.expovariate(rate)
    began, late = time.perf_counter(), 0.0
    tasks: list[asyncio.Task[CompletedRequest]] = []
    places = asyncio.Semaphore(MOST_OPEN)
    for moment in moments:
        await asyncio.sleep(max(0.0, began + moment - time.perf_counter()))
        await places.acquire()
        late = max(late, time.perf_counter() - began - moment)
        task = asyncio.create_task(_one(at, asked, model, chance))
        task.add_done_callback(lambda _: places.release())
        tasks.append(task)
    span = time.perf_counter() - began
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    seconds = time.perf_counter() - began
    good = tuple(end for end in ends if isinstance(end, CompletedRequest))
    bad = [end for end in ends if isinstance(end, BaseException)]
    return Level(rate, span, seconds, late, good, Counter(map(why, bad)))


async def _one(at: Server, asked: Request, model: str, chance: random.Random) -> CompletedRequest:
    # No two begin alike, so that no cache of prompts answers.
    prompt = " ".join(chance.choices(WORDS, k=asked.words))
    path = "/chat/completions" if asked.chat else "/completions"
    said = {"messages": [{"role": "user", "content": prompt}]} if asked.chat else {"prompt": prompt}
    body = {
        "model": model,
        **said,
        "max_tokens": asked.tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    began, answer = time.perf_counter(), StreamedAnswer()
    async with asyncio.timeout(asked.patience):
        async for line in lines(at, "POST", path, body):
            answer.take(line, time.perf_counter() - began)
    total, times = time.perf_counter() - began, answer.times
    tokens = answer.counted(asked.tokens)
    gaps = tuple(after - before for before, after in pairwise(times))
    return CompletedRequest(times[0], gaps, total, tokens, answer.prompt)


def why(error: BaseException) -> str:
    """The reason of a missing answer in words; other errors are raised again."""
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, TimeoutError):
        return "no complete answer in time"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or 'no connection'}"
    if isinstance(error, OSError):
        return f"no connection: {_error_text(error)}"
    raise error


def _error_text(error: OSError) -> str:
    """The system's text: asyncio replaces it with the call and the address."""
    if isinstance(error, socket.gaierror):
        return error.strerror or "the name is unknown"
    if error.errno:
        return os.strerror(error.errno)
    # For a name with several addresses, asyncio lists the error of each.
    numbers = dict.fromkeys(map(int, re.findall(r"\[Errno (\d+)\]", str(error))))
    return ", ".join(map(os.strerror, numbers)) or type(error).__name__
