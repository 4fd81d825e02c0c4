"""Processor and memory facts that reach the files of other hosts, and the hosts excluded from those files."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median_low

from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.shared_facts import Contradiction
from appliance.models.site import Host, Role, Site
from appliance.text import plural

Facts = Mapping[str, HostFacts]
Size = tuple[int, int, int, int]
"""Sockets, cores, threads, and bytes of memory."""

GIB = 1 << 30
SAME_MEMORY = 0.03
"""Tolerance for memory that another kernel or firmware reserves."""
OF_CLASS = 8
"""A class gives lower bounds. No host of the class has this many times as much, or this small a share."""
OF_EQUALS = 2
"""Maximum difference of one host of a class from most others."""
EQUALS = 3
"""With fewer hosts, a single host could move the median."""
MOST_CPUS = 65_000
"""slurm.conf(5): CPUs, Sockets, CoresPerSocket and ThreadsPerCore are 16 bits each."""
MOST_MEMORY = (1 << 20) * GIB
"""As much as a profile may declare."""
IMPOSSIBLE = "no host has that size: compare lscpu and free there, and reinstall the host if it was tampered with"
MOST_THREADS = 8
"""Threads per core: POWER has 8, x86 2."""


def _size(facts: HostFacts | None) -> Size | None:
    """None if it was not read."""
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
    """Return sizes by GPU host; None for an excluded one. A host that does not know its own size is missing."""
    contained = [
        bool(said[h.name].os.container) for h in _gpu_hosts(site) if _size(said.get(h.name))
    ]
    shares = bool(site.simulated) or 2 * sum(contained) > len(contained)
    made: dict[str, Size | None] = {}
    for own in site.profiles(profile):
        names = [h.name for h in _gpu_hosts(site) if site.profile_of(h.name, profile) is own]
        made |= _of_class(own, names, shares, said, known, accepting, found)
    return made


def _gpu_hosts(site: Site) -> tuple[Host, ...]:
    return site.with_role(Role.GPU)


def _of_class(
    profile: Profile,
    names: Sequence[str],
    shares: bool,
    said: Facts,
    known: Facts,
    accepting: frozenset[str],
    found: dict[str, list[Contradiction]],
) -> dict[str, Size | None]:
    """Compare the GPU hosts of one class with each other."""
    before = {n: size for n in names if (size := _size(known.get(n)))}
    now = {n: size for n in names if (size := _size(said.get(n)))}
    moved = _moved(before, now, len(names))
    wrong = {
        n: why
        for n, size in now.items()
        if n not in before and (why := _impossible(profile, shares, size, n in accepting))
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
                _outlier(new, middle) if middle and name not in accepting else None
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
    """Return what more than half of all hosts now report, for example after a memory upgrade; one host cannot cause that."""
    changed = [now[n] for n, old in before.items() if n in now and not _same(old, now[n])]
    if len(changed) < 2:
        return None
    ordered = sorted(changed)
    middle = ordered[len(ordered) // 2]
    return middle if 2 * sum(_same(middle, size) for size in changed) > hosts else None


def _impossible(profile: Profile, shares: bool, size: Size, accepted: bool) -> Contradiction | None:
    """Name a size that no host of the class has. ``shares``: hosts are containers, which may have less than their machine."""
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


def _outlier(size: Size, middle: tuple[int, int]) -> Contradiction | None:
    for what, value, bound, words in (
        ("threads", size[2], middle[0], str),
        ("memory", size[3], middle[1], _gib),
    ):
        if value > OF_EQUALS * bound or value * OF_EQUALS < bound:
            return Contradiction(what, words(value), f"most GPU hosts have {words(bound)}")
    return None


def _changed(old: Size, new: Size) -> Iterable[Contradiction]:
    if old[:3] != new[:3]:
        words = [
            f"{plural(s, 'socket')}, {plural(c, 'core')}, {plural(t, 'thread')}"
            for s, c, t, _ in (new, old)
        ]
        yield Contradiction("processors", words[0], f"{words[1]} were accepted")
    if abs(old[3] - new[3]) > SAME_MEMORY * old[3]:
        yield Contradiction("memory", _gib(new[3]), f"{_gib(old[3])} were accepted")


def _gib(size: int) -> str:
    return f"{size / GIB:.0f} GiB"
