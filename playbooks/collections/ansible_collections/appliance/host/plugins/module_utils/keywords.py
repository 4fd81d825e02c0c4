"""Lines of a file that is somebody else's: a keyword, blanks, a value; what was there is kept as a remark, and comes back."""

from __future__ import annotations

import re

MARK = "#appliance "
"""Before the line that was there; the line behind it is ours."""
_MARKED = re.compile(re.escape(MARK) + r"(\S+):(?: (.*))?$")


def settled(text: str, values: dict[str, str]) -> str:
    """The text with these keywords set, and all others as they were before any was."""
    if not values and MARK not in text:
        return text
    body = text.rstrip("\n")
    left = dict(values)
    found: list[str] = []
    for line in _before(body.split("\n")):
        word, value = _split(line)
        if word in values and value != values[word]:
            found += _ours(word, values[word], line)
        else:
            found.append(line)
        left.pop(word, None)
    for word, value in left.items():
        found += _ours(word, value, "")
    return "\n".join(found) + text[len(body) :]


def _ours(word: str, value: str, was: str) -> list[str]:
    return [f"{MARK}{word}: {was}" if was else f"{MARK}{word}:", f"{word}\t{value}"]


def _before(lines: list[str]) -> list[str]:
    """The lines as they were; a line of ours that somebody took out is not missed."""
    found: list[str] = []
    ours = ""
    for line in lines:
        marked = _MARKED.match(line)
        if marked:
            found += [marked.group(2)] if marked.group(2) else []
        elif not ours or _split(line)[0] != ours:
            found.append(line)
        ours = marked.group(1) if marked else ""
    return found


def _split(line: str) -> tuple[str, str]:
    """Keyword and value; neither of a remark or a blank line."""
    word, value = [*line.split(None, 1), "", ""][:2]
    return ("", "") if word.startswith("#") else (word, value.strip())
