"""Text of others that people will read: one line that moves no cursor, and of a length that can be read."""

from collections.abc import Sequence

LONGEST = 8192
"""Characters of one line; the longest list of processors of a NUMA node stays whole."""
CUT = "…"


def one_line(text: str) -> str:
    """``text`` on one line: blanks and line breaks become one blank, and what has no picture of its own is spelled out.

    That are control characters of all kinds, with which text takes a terminal over, and those that change the order or
    the look of others unseen: marks of direction, blanks of no width.
    """
    if not text.isprintable():
        words = " ".join(text.split())
        # Each kind of character is looked at once: a host can send 16 MiB of them.
        text = words.translate({ord(c): repr(c)[1:-1] for c in set(words) if not c.isprintable()})
    return text


def lines(text: str) -> str:
    """``text`` with its line breaks, each line of it as ``one_line`` has it."""
    return "\n".join(map(one_line, text.split("\n")))


def plural(count: int, noun: str, many: str = "") -> str:
    """``1 host``, ``2 hosts``; ``noun`` and ``many`` may hold a verb, too: ``plural(n, "pod waits", "pods wait")``."""
    return f"{count} {noun if count == 1 else many or noun + 's'}"


def was(count: int) -> str:
    """``1 error was``, ``2 errors were``."""
    return "was" if count == 1 else "were"


def counted(count: int, unit: str) -> str:
    """A count with its unit, which stands in the plural: ``1 error``, ``2 errors``."""
    return f"{count} {of_one(unit) if count == 1 else unit}"


def of_one(unit: str) -> str:
    """A unit as it follows a 1, where it counts things: ``error`` of ``errors``; others, as ``GB/s``, as they are."""
    words = unit.split(" ")
    for index, noun in enumerate(words):
        if len(noun) > 2 and noun.isalpha() and noun.endswith("s"):
            words[index] = f"{noun[:-3]}y" if noun.endswith("ies") else noun[:-1]
            break
    return " ".join(words)


def cleaned(value: object) -> object:
    """A document with every text in it, keys too, on one line."""
    match value:
        case str():
            return one_line(value)
        case dict():
            return {one_line(str(key)): cleaned(item) for key, item in value.items()}
        case list():
            return [cleaned(item) for item in value]
        case _:
            return value


def shortened(text: str, longest: int = LONGEST) -> str:
    """``text``, cut where it is longer than so many characters."""
    return text if len(text) <= longest else text[: longest - 1] + CUT


def quoted(value: object, longest: int = 60) -> str:
    """A value of others as it can stand within a sentence."""
    return shortened(one_line(repr(value)), longest)


def first_few(items: Sequence[str], most: int = 3) -> str:
    """The first few, and how many more."""
    rest = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + rest
