"""Hosts as people name them: one by one, after commas, or folded as all output shows them."""

import re
from collections.abc import Iterable, Iterator, Sequence

from appliance.errors import ConfigError
from appliance.report.wording import fold

_BETWEEN = re.compile(r",(?![^\[]*\])")
"""A comma that stands in no bracket."""
_FOLDED = re.compile(
    r"(?P<prefix>[^\[\]]+)\[(?P<ranges>[0-9]{1,9}(?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*)\]"
)


def named(
    words: Iterable[str], known: Sequence[str], *, flag: str = "", kind: str = "host"
) -> tuple[str, ...]:
    """The hosts that ``words`` name, each once, in the order of ``known``; ``gpu-[1-3,7]`` stands for four.

    ``flag``: the option they came with; ``kind``: what ``known`` are. Raises ConfigError for the first that is not among ``known``.
    """
    hosts = frozenset(known)
    wanted: set[str] = set()
    for word in words:
        for name in unfolded(word):
            if name not in hosts:
                said = f"{flag} {name}".strip()
                raise ConfigError(f"{said}: no such {kind}", f"{kind}s: {fold(known) or 'none'}")
            wanted.add(name)
    return tuple(name for name in known if name in wanted)


def unfolded(text: str) -> Iterator[str]:
    """Each name in a list with ranges, as ``head, gpu-[1-4,7]``: what wording.fold makes, taken apart.

    ``gpu-[01-16]`` keeps its zeros. What is no range is a name as it stands.
    """
    for part in map(str.strip, _BETWEEN.split(text)):
        found = _FOLDED.fullmatch(part)
        if not found:
            yield part
            continue
        for run in found["ranges"].split(","):
            first, _, last = run.partition("-")
            if int(last or first) < int(first):
                # Nothing would be named, and no name at all means every host.
                yield part
            width = len(first) if first.startswith("0") else 0
            for number in range(int(first), int(last or first) + 1):
                yield f"{found['prefix']}{number:0{width}}"
