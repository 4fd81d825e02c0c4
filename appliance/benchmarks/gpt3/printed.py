"""Finds the configuration and time that a training log prints: sequence length, world size, batch, first time stamp."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from appliance.models.base import Model

HEAD = 4_000_000
"""Characters that are searched. Programs print their configuration before they train."""
SEQUENCE = (
    # Megatron-LM prints its arguments as "  seq_length ......... 2048".
    re.compile(r"\b(?:encoder_)?seq_length \.{2,80} (\d{1,9})\b"),
    # NeMo prints its configuration as YAML, NeMo 2 and Megatron-Bridge as constructors.
    re.compile(r"\b(?:encoder_)?seq_length[ \t]{0,4}[:=][ \t]{0,4}(\d{1,9})\b"),
)
WORLD = {
    # Megatron-LM; then Lightning, in two places.
    "world size: ": re.compile(r"\busing world size: (\d{1,7})\b"),
    "All distributed processes registered": re.compile(
        r"All distributed processes registered\. Starting with (\d{1,7}) processes"
    ),
    "GLOBAL_RANK: ": re.compile(r"GLOBAL_RANK: \d{1,7}, MEMBER: \d{1,7}/(\d{1,7})\b"),
}
BATCH = (
    re.compile(r"\bglobal_batch_size \.{2,80} (\d{1,9})\b"),
    # After the bar of a NeMo 2 step line, the value belongs to that step.
    re.compile(r"\bglobal_batch_size[ \t]{0,4}[:=][ \t]{0,4}(\d{1,9})\b(?! \|)"),
)
PLAIN = "by PyTorch alone"
"""Lines that the appliance's own program prints (train.py)."""
STAMP = re.compile(r"\[(?:NeMo \w )?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)")
DLLOGGER = re.compile(
    r'DLLL \{"timestamp": "(\d{1,12}\.\d{1,9})"(?:, "datetime": "[^"]{0,40}")?, "elapsedtime": "(\d[\d.]{0,20}(?:e-\d\d)?)"'
)
"""Seconds since 1970, and since the start, of a line of NeMo's DLLogger."""


class Printed(Model):
    """Values that a log prints, each as the set of printed values; empty if there are none.

    ``plain``: whether PyTorch trained alone, without NVIDIA's framework.
    """

    sequence: tuple[int, ...] = ()
    world: tuple[int, ...] = ()
    batch: tuple[int, ...] = ()
    began: datetime | None = None
    plain: bool = False


def printed(head: str) -> Printed:
    """Reads the ``head`` of a log. Time stamps have no zone and are read in this machine's zone."""
    # Most heads contain none of these words, and searching a word costs far less than matching a pattern.
    return Printed(
        sequence=_all(SEQUENCE, head) if "seq_length" in head else (),
        world=_all([pattern for word, pattern in WORLD.items() if word in head], head),
        batch=_all(BATCH, head) if "global_batch_size" in head else (),
        began=_began(head),
        plain=PLAIN in head,
    )


def _all(patterns: Iterable[re.Pattern[str]], text: str) -> tuple[int, ...]:
    return tuple(sorted(set(_numbers(patterns, text))))


def _numbers(patterns: Iterable[re.Pattern[str]], text: str) -> Iterator[int]:
    for pattern in patterns:
        for match in pattern.finditer(text):
            yield int(match[1])


def _began(text: str) -> datetime | None:
    for match in STAMP.finditer(text):
        try:
            found = datetime.fromisoformat(f"{match[1]}T{match[2]}").astimezone(UTC)
        except (ValueError, OverflowError, OSError):
            continue
        return found
    if said := DLLOGGER.search(text):
        with suppress(ValueError, OverflowError, OSError):
            return datetime.fromtimestamp(float(said[1]) - float(said[2]), UTC)
    return None
