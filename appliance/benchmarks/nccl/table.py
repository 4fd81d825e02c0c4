"""The table that nccl-tests print (2.0 to 2.19): sizes, bus bandwidths, wrong values, and the GPUs that took part."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.benchmarks.reading import Unread, number
from appliance.text import quoted

RANK = re.compile(
    r"#\s+Rank\s+([0-9]{1,9})\s.*?\bon\s+(\S+)\s+device\s+([0-9]{1,9})\s+\[\S+\]\s+(.+)"
)
FOOTER = re.compile(r"#\s*Out of bounds values\s*:\s*([0-9]{1,18})\s+(\S+)")
HEADER = re.compile(r"#\s+size\s+count\s+type\s")
UNITS = re.compile(
    r"#\s+\(B\)\s+\(elements\)\s+.*\((us|ms|s)\)\s+\((GB/s|MB/s|Gb/s)\)\s+\((GB/s|MB/s|Gb/s)\)"
)
DIFFERENCE = re.compile(r"#\s+size\s+count\s+type\s.*\sbusbw\s+error\b")
"""The head of older releases: their last column is the largest difference, and the footer alone counts wrong values."""
ROUNDED = 0.1
"""Own choice: no rounding is as large as that, so a larger difference contradicts a footer without wrong values."""
MIB = 1 << 20
NOT_CHECKED = "N/A"
SAME = 0.02
"""Maximum relative difference between a bandwidth and that from size and time, in addition to the rounding of printed digits."""
MOST_FACTOR = 2.0
"""Bus bandwidth of all_reduce is 2 (n - 1) / n times the other; of no collective it is more (nccl-tests, PERFORMANCE.md)."""
DENT = 20.0
"""Percent below the best smaller size that make a dent. Own choice: a change of protocol costs some 10 % (seen in published tables)."""


@dataclass(frozen=True)
class Row:
    """One message size in bytes; out-of-place bus bandwidth in GB/s, and wrong values of both ways."""

    size: int
    busbw: float
    wrong: int


@dataclass(frozen=True)
class Collective:
    """A whole run. ``hosts``: by host how many GPUs took part."""

    rows: tuple[Row, ...]
    hosts: dict[str, int]
    gpus: frozenset[str]
    wrong: int

    @property
    def peak(self) -> Row:
        """The largest message, which is compared with limits. The footer's average includes all sizes, small ones too."""
        return self.rows[-1]

    @property
    def alone(self) -> bool:
        """Whether one GPU took part: its bus bandwidth is 0.00 throughout, for nothing leaves it."""
        return sum(self.hosts.values()) == 1

    @property
    def dents(self) -> tuple[tuple[int, float], ...]:
        """Sizes from 1 MiB on where bandwidth falls back, with by how many percent."""
        best, found = 0.0, []
        for row in self.rows:
            if row.size >= MIB and best and (lost := (best - row.busbw) / best * 100) > DENT:
                found.append((row.size, round(lost, 1)))
            best = max(best, row.busbw)
        return tuple(found)


def read(output: str) -> Collective:
    """Raises Unread if the table is incomplete, occurs more than once, or has other units."""
    lines = output.splitlines()
    ranks = [match for line in lines if (match := RANK.match(line.strip()))]
    footers = [match for line in lines if (match := FOOTER.match(line.strip()))]
    heads = sum(bool(HEADER.match(line.strip())) for line in lines)
    if heads > 1 or len(footers) > 1:
        raise Unread(
            f"{max(heads, len(footers))} tables: each rank ran alone, because nccl-tests was built without MPI, "
            "or Slurm's plugin pmix is missing"
        )
    if not heads:
        raise Unread("it printed no table")
    if not footers:
        raise Unread("its table is incomplete: the last lines are missing")
    units = [match for line in lines if (match := UNITS.match(line.strip()))]
    if not units or units[0].groups() != ("us", "GB/s", "GB/s"):
        raise Unread("the units of its table are not us and GB/s")
    if [int(match[1]) for match in ranks] != list(range(len(ranks))) or not ranks:
        raise Unread("the GPUs that took part are not listed")
    table = [line for line in lines if line[:1].isspace() and line.strip()[:1].isdigit()]
    counted = not any(DIFFERENCE.match(line.strip()) for line in lines)
    every = tuple(_row(line, counted) for line in table)
    # Less than one element for each rank: such a collective sends nothing, and prints the size 0.
    empty = sum(not row.size for row in every)
    rows, table = every[empty:], table[empty:]
    sizes = [row.size for row in rows]
    if not rows or sizes != sorted(set(sizes)) or not all(sizes):
        raise Unread("its sizes do not increase")
    for line, row in zip(table, rows, strict=True):
        _require_consistent(line, row)
    hosts: dict[str, int] = {}
    for match in ranks:
        hosts[match[2]] = hosts.get(match[2], 0) + 1
    gpus = frozenset(match[4].strip() for match in ranks)
    return Collective(rows, hosts, gpus, _wrong(every, footers[0], table if not counted else ()))


def _row(line: str, counted: bool) -> Row:
    """size count type redop root, then time algbw busbw #wrong out of place and in place; older ones lack redop or root."""
    words = line.split()
    if not 11 <= len(words) <= 13:
        raise Unread(f"a line of its table is incomplete: {quoted(line.strip())}")
    out, back = words[-8:-4], words[-4:]
    size = number(words[0], "a size")
    if size != int(size):
        raise Unread(f"a size is not an integer: {quoted(words[0])}")
    if out[3] == NOT_CHECKED:
        raise Unread("its values were not checked: run it with -c 1")
    # Some collectives cannot run in place.
    checked = [word for word in (out[3], back[3]) if word != NOT_CHECKED]
    wrong = sum(map(_count, checked)) if counted else 0
    return Row(int(size), number(out[2], "a bus bandwidth"), wrong)


def _require_consistent(line: str, row: Row) -> None:
    """Size and time give one bandwidth, which bounds the other. Otherwise a line combines two runs, has other units, or is forged."""
    time, bandwidth, bus = line.split()[-8:-5]
    took, rate = number(time, "a time"), number(bandwidth, "a bandwidth")
    made = row.size / took / 1000 if took else 0.0
    slack = _half(bandwidth) + made * (_half(time) / took if took else 0.0)
    if abs(rate - made) > SAME * max(rate, made) + slack:
        raise Unread(
            f"a line contradicts itself: {row.size} bytes in {took:g} us are {made:.4g} GB/s, but the line reports {rate:g}"
        )
    if row.busbw > MOST_FACTOR * (rate + slack) + _half(bus):
        raise Unread(
            f"a line contradicts itself: {rate:g} GB/s do not give a bus bandwidth of {row.busbw:g}"
        )


def _half(word: str) -> float:
    """Half a unit of the last printed digit."""
    mantissa, _, exponent = word.lower().partition("e")
    # The exponent of a printed zero has no meaning, and may have any value.
    power = int(exponent or 0) if mantissa.strip("+-0.") else 0
    return 0.5 * 10.0 ** (power - len(mantissa.partition(".")[2]))


def _count(word: str) -> int:
    """Wrong values of a column that counts them."""
    found = number(word, "#wrong")
    if found != int(found):
        raise Unread(f"a number of wrong values is not an integer: {quoted(word)}")
    return int(found)


def _wrong(rows: tuple[Row, ...], footer: re.Match[str], differing: Sequence[str]) -> int:
    """Errors by rows and footer. ``differing``: lines of releases that print differences, which must not contradict the footer."""
    counted = sum(row.wrong for row in rows)
    wrong = max(counted, int(footer[1]), footer[2] != "OK")
    for line in differing:
        for word in (line.split()[-5], line.split()[-1]):
            if word != NOT_CHECKED and not wrong and number(word, "a difference") > ROUNDED:
                raise Unread(
                    f"it contradicts itself: values differ by {word}, and it counts none that is out of bounds"
                )
    return wrong
