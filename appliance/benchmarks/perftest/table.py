"""The table that ib_write_bw and ib_write_lat print (perftest 4.x and later), in any unit."""

import re

from appliance.benchmarks.reading import Unread, number
from appliance.text import quoted

BW_HEAD = re.compile(
    r"#bytes\s+#iterations\s+BW peak\[(\S+)\]\s+BW average\[(\S+)\]\s+MsgRate\[Mpps\]"
)
LAT_HEAD = re.compile(
    r"#bytes\s+#iterations\s+t_min\[usec\]\s+t_max\[usec\]\s+t_typical\[usec\]\s.*"
)
LAT_TIMED = re.compile(r"#bytes\s+#iterations\s+t_avg\[usec\]\s+tps average")
HEADS = (BW_HEAD, LAT_HEAD, LAT_TIMED)
MEBIBYTES = 8 * 1.048576e-3
GBPS = {"Gb/sec": 1.0, "MB/sec": MEBIBYTES, "MiB/sec": MEBIBYTES}
"""Gb/s of one unit. Without --report_gbits perftest prints mebibytes, which 4.5 calls MB (MiB in its --help), later ones MiB."""


def bandwidth(output: str) -> float:
    """Average Gb/s of the largest message. The peak is of single messages, and zero in timed runs."""
    head, rows = _rows(output, BW_HEAD)
    unit = head[2]
    if head[1] != unit or unit not in GBPS:
        raise Unread(f"unit {quoted(unit)} is not known")
    found = number(_words(rows[-1], 5)[3], "the bandwidth") * GBPS[unit]
    if not found:
        raise Unread("nothing was transferred")
    return found


def latency(output: str) -> float:
    """Typical (median) microseconds of the smallest message; the average, if a timed run prints no other value."""
    for pattern, least, column in ((LAT_HEAD, 5, 4), (LAT_TIMED, 3, 2)):
        if any(pattern.fullmatch(line.strip()) for line in output.splitlines()):
            _, rows = _rows(output, pattern)
            found = number(_words(rows[0], least)[column], "the latency")
            if not found:
                raise Unread("no message was timed")
            return found
    raise Unread(_last(output))


def _rows(output: str, head: re.Pattern[str]) -> tuple[re.Match[str], list[str]]:
    """The heading and the lines between it and the closing rule. Raises Unread."""
    lines = [line.strip() for line in output.splitlines()]
    at = next((i for i, line in enumerate(lines) if head.fullmatch(line)), None)
    if at is None:
        raise Unread(_last(output))
    if any(other.fullmatch(line) for other in HEADS for line in lines[at + 1 :]):
        raise Unread("it printed more than one table: two runs in one output")
    match, rows = head.fullmatch(lines[at]), []
    for line in lines[at + 1 :]:
        if line.startswith("---"):
            break
        # perftest warns of changing processor clocks in the midst of its table.
        if line[:1].isdigit():
            rows.append(line)
    else:
        raise Unread("its table is incomplete")
    if match is None or not rows:
        raise Unread("its table is empty")
    return match, rows


def _words(line: str, least: int) -> list[str]:
    words = line.split()
    if len(words) < least:
        raise Unread(f"a line of its table is incomplete: {quoted(line)}")
    return words


def _last(output: str) -> str:
    words = [line.strip() for line in output.splitlines() if line.strip(" -")]
    return f"it printed no table: {quoted(words[-1])}" if words else "no output"
