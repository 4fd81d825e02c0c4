"""Host names as users type them: one by one, separated by commas, or folded as in all output."""

import re
from collections.abc import Iterable, Iterator, Sequence

from appliance.errors import ConfigError
from appliance.report.formatting import fold

_BETWEEN = re.compile(r",(?![^\[]*\])")
"""A comma outside brackets."""
_FOLDED = re.compile(
    r"(?P<prefix>[^\[\]]+)\[(?P<ranges>[0-9]{1,9}(?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*)\]"
)


def named_hosts(
    words: Iterable[str], known: Sequence[str], *, flag: str = "", kind: str = "host"
) -> tuple[str, ...]:
    """Return the hosts that ``words`` name, each once, in the order of ``known``; ``gpu-[1-3,7]`` stands for four.

    ``flag``: the option that had them; ``kind``: what ``known`` are. Raises ConfigError for the first unknown name.
    """
    hosts = frozenset(known)
    wanted: set[str] = set()
    for word in words:
        for name in expanded_ranges(word):
            if name not in hosts:
                said = f"{flag} {name}".strip()
                raise ConfigError(f"{said}: no such {kind}", f"{kind}s: {fold(known) or 'none'}")
            wanted.add(name)
    return tuple(name for name in known if name in wanted)


def expanded_ranges(text: str) -> Iterator[str]:
    """Expand a list with ranges, such as ``head, gpu-[1-4,7]``: the inverse of wording.fold.

    ``gpu-[01-16]`` keeps its zeros. Text that is not a range is a name.
    """
    for part in map(str.strip, _BETWEEN.split(text)):
        found = _FOLDED.fullmatch(part)
        if not found:
            yield part
            continue
        for run in found["ranges"].split(","):
            first, _, last = run.partition("-")
            if int(last or first) < int(first):
                # An empty list would select no host, and no option at all selects every host.
                yield part
            width = len(first) if first.startswith("0") else 0
            for number in range(int(first), int(last or first) + 1):
                yield f"{found['prefix']}{number:0{width}}"
