"""Of processors and memory, what reaches files of other hosts; and which hosts are left out of them."""

from collections.abc import Iterable, Mapping
from statistics import median_low

from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.site import Role, Site
from appliance.models.standing import Contradiction

Facts = Mapping[str, HostFacts]
Size = tuple[int, int, int, int]
"""Sockets, cores, threads, and bytes of memory."""

GIB = 1 << 30
SAME_MEMORY = 0.03
"""Another kernel, or firmware, keeps that much more or less of the memory to itself."""
OF_CLASS = 8
"""A figure of a class is a lower bound; nothing of that class has so many times as much, or so small a part of it."""
OF_EQUALS = 2
"""Hosts of one class differ from most of them by less."""
EQUALS = 3
"""Fewer hosts have no middle that one of them cannot move."""
MOST_CPUS = 65_000
"""slurm.conf(5): CPUs, Sockets, CoresPerSocket and ThreadsPerCore are 16 bits each."""
MOST_MEMORY = (1 << 20) * GIB
"""As much as a profile may name."""
IMPOSSIBLE = "no host is of that size: compare lscpu and free there, and reinstall the host if it was tampered with"
MOST_THREADS = 8
"""Of a core: POWER has 8, x86 2."""


def _size(facts: HostFacts | None) -> Size | None:
    """None where it was not read."""
    if facts is None or not (facts.cpu.threads and facts.memory.total):
        return None
    cpu = facts.cpu
    return cpu.sockets, cpu.cores, cpu.threads, facts.memory.total


def sizes_of(
    profile: Profile,
    site: Site,
    said: Facts,
    known: Facts,
    accepting: frozenset[str],
    found: dict[str, list[Contradiction]],
) -> dict[str, Size | None]:
    """By GPU host; None for one that is left out. A host that does not know its own is not here."""
    names = [h.name for h in site.with_role(Role.GPU)]
    before = {n: size for n in names if (size := _size(known.get(n)))}
    now = {n: size for n in names if (size := _size(said.get(n)))}
    moved = _moved(before, now, len(names))
    contained = sum(bool(said[n].os.container) for n in now)
    shares = bool(site.simulated) or 2 * contained > len(now)
    wrong = {
        n: why
        for n, size in now.items()
        if n not in before and (why := _beyond(profile, shares, size, n in accepting))
    }
    equals = [
        size
        for n in names
        if (size := before.get(n) or (now.get(n) if n not in wrong else None)) is not None
    ]
    middle = (
        (median_low(s[2] for s in equals), median_low(s[3] for s in equals))
        if len(equals) >= EQUALS
        else None
    )
    made: dict[str, Size | None] = {}
    for name in names:
        old, new = before.get(name), now.get(name)
        if old and new and not _same(old, new):
            if moved and _same(moved, new):
                old = new
            else:
                found.setdefault(name, []).extend(_changed(old, new))
        elif not old and new:
            why = wrong.get(name) or (
                _unlike(new, middle) if middle and name not in accepting else None
            )
            if why:
                found.setdefault(name, []).append(why)
                made[name] = None
                continue
            old = new
        if old:
            made[name] = old
    return made


def _same(one: Size, other: Size) -> bool:
    return one[:3] == other[:3] and abs(one[3] - other[3]) <= SAME_MEMORY * one[3]


def _moved(before: Mapping[str, Size], now: Mapping[str, Size], hosts: int) -> Size | None:
    """What more than half of all hosts became, as where all got more memory: one host cannot make that so."""
    changed = [now[n] for n, old in before.items() if n in now and not _same(old, now[n])]
    if len(changed) < 2:
        return None
    ordered = sorted(changed)
    middle = ordered[len(ordered) // 2]
    return middle if 2 * sum(_same(middle, size) for size in changed) > hosts else None


def _beyond(profile: Profile, shares: bool, size: Size, accepted: bool) -> Contradiction | None:
    """What no host of the class has. ``shares``: hosts are containers, which have their machine's, and may have less."""
    sockets, cores, threads, memory = size
    expected = profile.hardware.host
    if max(sockets, cores, threads) > MOST_CPUS or (cores and threads > MOST_THREADS * cores):
        return Contradiction("processors", f"{threads} threads", f"at most {MOST_CPUS}", IMPOSSIBLE)
    if memory > MOST_MEMORY:
        return Contradiction("memory", _gib(memory), f"at most {_gib(MOST_MEMORY)}", IMPOSSIBLE)
    if accepted:
        return None
    least = 0 if shares else 1
    for what, value, bound, words in (
        ("sockets", sockets or expected.sockets, expected.sockets, str),
        ("cores", cores or threads, expected.cores, str),
        ("threads", threads, 2 * expected.cores, str),
        ("memory", memory, expected.memory_gib * GIB, _gib),
    ):
        floor = 0 if what == "threads" else bound // OF_CLASS
        if value > bound * OF_CLASS or least * floor > value:
            expects = f"class {profile.name} has {words(bound)}"
            return Contradiction(what, words(value), expects)
    return None


def _unlike(size: Size, middle: tuple[int, int]) -> Contradiction | None:
    for what, value, bound, words in (
        ("threads", size[2], middle[0], str),
        ("memory", size[3], middle[1], _gib),
    ):
        if value > OF_EQUALS * bound or value * OF_EQUALS < bound:
            return Contradiction(what, words(value), f"most GPU hosts have {words(bound)}")
    return None


def _changed(old: Size, new: Size) -> Iterable[Contradiction]:
    if old[:3] != new[:3]:
        words = [f"{s} sockets, {c} cores, {t} threads" for s, c, t, _ in (new, old)]
        yield Contradiction("processors", words[0], f"{words[1]} were accepted")
    if abs(old[3] - new[3]) > SAME_MEMORY * old[3]:
        yield Contradiction("memory", _gib(new[3]), f"{_gib(old[3])} were accepted")


def _gib(size: int) -> str:
    return f"{size / GIB:.0f} GiB"
