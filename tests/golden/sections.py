"""A record as sections, and what one has other than another: small enough to be read, and nothing is left out.

A text is a row of sections, each below a line ``== TITLE``.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from itertools import chain

MARK = "== "
OF = " | "
"""Before the kind of host a section is of, at the end of its title."""
LONG = 4
"""Lines that are missing in one run: of more than that the first and the last are shown."""
ELSE = " has else"
VALUE = re.compile(r"\n(?![ \]}])")
"""Before the next variable."""
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
Sections = dict[str, list[str]]


def text_of(sections: Mapping[str, list[str]]) -> str:
    """The text of a record's file; sections of several kinds of host that are alike stand there once."""
    lines = chain.from_iterable((MARK + title, *lines) for title, lines in _together(sections))
    return "\n".join(lines) + "\n"


def common_first(sections: Sections) -> Sections:
    """Sections of variables, with what all kinds of host have alike in one of its own, before what each has else.

    A variable is a line, and the lines behind it that go on with its value.
    """
    of: dict[str, list[str]] = {}
    for title in sections:
        of.setdefault(title.partition(OF)[0], []).append(title)
    found: Sections = {}
    for titles in of.values():
        values = {title: VALUE.split("\n".join(sections[title])) for title in titles}
        first, *others = values.values()
        alike = [value for value in first if others and all(value in own for own in others)]
        for title in titles:
            # _together joins these again, for they are the same.
            found[title] = [line for value in alike for line in value.splitlines()]
        for title in titles:
            rest = [value for value in values[title] if value not in alike]
            own = [line for value in rest for line in value.splitlines()]
            found[f"{title}{ELSE}" if alike else title] = own
    return {title: lines for title, lines in found.items() if lines}


def counted_out(sections: Sections) -> Sections:
    """With N for every number: counts follow from what other sections show."""
    return {title: [NUMBER.sub("N", line) for line in own] for title, own in sections.items()}


def differences(name: str, base: Sections, other: Sections) -> list[str]:
    """Lines that lead from ``base`` to ``other``, section by section; [] for none. ``name``: of the file.

    A section that only one of them has is named; of one that is only in ``other`` every line is shown. What a kind of
    host has that ``base`` does not know is shown beside the first kind that has such a section there.
    """
    first = {title.partition(OF)[0]: title for title in reversed(base)}
    shown: dict[str, list[str]] = {}
    for title, lines in other.items():
        whole, _, _kind = title.partition(OF)
        beside = title if title in base else first.get(whole)
        if beside is None:
            shown[f"+{title}"] = [f"+{line}" for line in lines]
        elif changed := list(_changed(base[beside], lines)):
            also = "" if beside == title else f", beside {beside.partition(OF)[2]}"
            shown[title + also] = changed
    kept = {title.partition(OF)[0] for title in other}
    gone = dict.fromkeys(whole for whole in first if whole not in kept)
    return [
        *(f"-{MARK}{name}: {title}" for title in reversed(gone)),
        *(
            line
            for title, lines in _together(shown)
            for line in (
                f"{title[:1] if title[0] == '+' else ''}{MARK}{name}: {title.lstrip('+')}",
                *lines,
            )
        ),
    ]


def _together(sections: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """Sections with those of other kinds of host that have the same lines."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for title, lines in sections.items():
        whole, _, kind = title.partition(OF)
        kinds.setdefault((whole, *lines), []).append(kind)
    for (whole, *lines), own in kinds.items():
        yield whole + (OF + "; ".join(own) if any(own) else ""), lines


def _changed(before: list[str], now: list[str]) -> Iterator[str]:
    matcher = SequenceMatcher(None, before, now, autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind != "equal":
            removed = [f"-{line}" for line in before[first:last]]
            yield from removed if len(removed) <= LONG else (removed[0], "-...", removed[-1])
            yield from (f"+{line}" for line in now[start:end])
