"""Defines a promise: how it is tested on a cluster, and how the observations are judged."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from appliance.acceptance.capacity import Capacity
from appliance.acceptance.sandbox import Sandbox
from appliance.acceptance.timeline import Timeline


class Judgement(NamedTuple):
    """``kept`` is None if the trial shows nothing about the promise."""

    kept: bool | None
    cause: str = ""


KEPT = Judgement(True)


def broken(cause: str) -> Judgement:
    """The promise was not kept."""
    return Judgement(False, cause)


def unknown(cause: str) -> Judgement:
    """The trial shows nothing."""
    return Judgement(None, cause)


def unasked(workload: str) -> Judgement:
    """Nothing was withheld, because nothing was requested."""
    return unknown(f"the Job controller created the pods of {workload} too late: try again")


@dataclass(frozen=True)
class Promise:
    """One promise. ``lacks``: why this cluster cannot show it, "" if it can. ``fix``: the remedy for a broken one."""

    id: str
    title: str
    explain: str
    lacks: Callable[[Capacity], str]
    play: Callable[[Sandbox], None]
    judge: Callable[[Timeline, Capacity], Judgement]
    fix: str
