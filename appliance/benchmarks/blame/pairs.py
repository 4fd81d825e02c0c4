"""Which ends and paths explain bad pairs, and which pairs to try next with an end that is known to be good.

An end is a host, or a part of one ("gpu-1/mlx5_3", "gpu-1/GPU 5"). What rests on: an end that is bad makes every
group bad that it is in, so a group that is good clears all of its ends. A pair that is bad though both of its ends
are cleared has a bad path between them: cable, switch, or a limit of the two together.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isqrt

Group = frozenset[str]
Results = Mapping[Group, bool | None]
"""By group, whether it was good; None if it could not be measured, which neither clears nor blames."""


@dataclass(frozen=True)
class Isolated:
    """``ends`` that are bad, ``paths`` between good ends that are, and ``open`` ends that nothing has cleared or blamed."""

    ends: tuple[str, ...] = ()
    paths: tuple[tuple[str, str], ...] = ()
    open: tuple[str, ...] = ()
    good: tuple[str, ...] = ()


def isolate(ends: Iterable[str], results: Results) -> Isolated:
    """Returns the verdicts on ``ends`` that these results prove."""
    cleared = {end for group, good in results.items() if good for end in group}
    bad_groups = [group for group, good in results.items() if good is False]
    bad, paths = set[str](), set[tuple[str, str]]()
    for group in bad_groups:
        left = group - cleared
        if len(left) == 1:
            bad |= left
        elif not left and len(group) == 2:
            first, second = sorted(group)
            paths.add((first, second))
    still = sorted(set(ends) - cleared - bad)
    return Isolated(tuple(sorted(bad)), tuple(sorted(paths)), tuple(still), tuple(sorted(cleared)))


def search(
    ends: Sequence[str],
    attempt: Callable[[Sequence[Group]], Results],
    rounds: int = 32,
    size: int = 0,
) -> Isolated:
    """Tests groups of ``size`` ends (0: about the square root of all), then tries each suspect with a known good end.

    ``attempt`` measures groups without common ends concurrently. Ends of a group that was not measured stay
    open. If no group is good, pairs are tried until one is, for at most ``rounds`` in all.
    """
    results: dict[Group, bool | None] = dict(attempt(screens(ends, size)))
    for _ in range(rounds):
        batch = _next(ends, results)
        if not batch:
            break
        results |= attempt(batch)
    return isolate(ends, results)


def screens(ends: Sequence[str], size: int = 0) -> tuple[Group, ...]:
    """Groups of ``size`` ends (0: about the root of all), at least two in each.

    One end alone joins the last group, but no pair: it is tried with one that is known to be good then.
    """
    wanted = size or max(2, isqrt(len(ends)))
    groups = [list(ends[at : at + wanted]) for at in range(0, len(ends), wanted)]
    if size != 2 and len(groups) > 1 and len(groups[-1]) == 1:
        last = groups.pop()
        groups[-1] += last
    return tuple(frozenset(group) for group in groups if len(group) > 1)


def _next(ends: Sequence[str], results: Results) -> tuple[Group, ...]:
    """Pairs to try next, without repeated ends; empty if no result can be gained."""
    found = isolate(ends, results)
    tried = {end for group, good in results.items() if good is not False for end in group}
    bad = {end for group, good in results.items() if good is False for end in group}
    suspects = [end for end in found.open if end in bad or end not in tried]
    if not found.good:
        return _disjoint(p for p in map(frozenset, combinations(suspects, 2)) if p not in results)
    wanted = (
        *(frozenset((good, suspect)) for suspect in suspects for good in found.good),
        *_confirming(results, found),
        *_unexplained(results, found),
    )
    return _disjoint(pair for pair in wanted if pair not in results)


def _confirming(results: Results, found: Isolated) -> Iterable[Group]:
    """Tries each blamed end with two good ones, if there are two: a single bad pair may be a bad path, and a bad group may hide another."""
    for end in found.ends:
        partners = {next(iter(pair - {end})) for pair in results if end in pair and len(pair) == 2}
        if len(partners & set(found.good)) < 2:
            yield from (frozenset((end, good)) for good in found.good)


def _unexplained(results: Results, found: Isolated) -> Iterable[Group]:
    """Pairs within bad groups of three and more ends that are all good: a bad path hides there."""
    for group, good in results.items():
        if good is False and len(group) > 2 and group <= set(found.good):
            yield from map(frozenset, combinations(sorted(group), 2))


def _disjoint(pairs: Iterable[Group]) -> tuple[Group, ...]:
    taken, chosen = set[str](), list[Group]()
    for pair in pairs:
        if not pair & taken:
            chosen.append(pair)
            taken |= pair
    return tuple(chosen)


def lifted(ends: Iterable[str], bad: Iterable[str]) -> tuple[str, ...]:
    """Bad parts of hosts, those of a host all of whose parts (two at least) are bad as that host."""
    parts: dict[str, set[str]] = {}
    for end in ends:
        parts.setdefault(end.partition("/")[0], set()).add(end)
    left, found = set(bad), list[str]()
    for host, of_host in parts.items():
        if len(of_host) > 1 and of_host <= left:
            found.append(host)
            left -= of_host
    return tuple(sorted((*found, *left)))
