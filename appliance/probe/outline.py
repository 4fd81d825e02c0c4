"""Outlines a line of a user's file without words that could be secrets.

Kept are the first word where a word of theirs follows it, and words of the grammars of sudoers(5), crontab(5), sources.list(5) and sshd_config(5).
"""

from __future__ import annotations

import re

CUT = "…"
FIRST = re.compile(r"[@#%]?[A-Za-z_][A-Za-z0-9_.-]{0,31}:?")
ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,39}=")
SOURCE = re.compile(r"https?://[A-Za-z0-9.-]{1,80}(:\d{1,5})?/")
WORD = re.compile(
    r"ALL|(NO)?(PASSWD|EXEC|SETENV):|(ALL)?=?\((ALL|root)(:ALL)?\)|=|yes|no|on|off|true|false|root|[01]"
    r"|(\*|\d{1,2})([-/,](\*|\d{1,2}))*|@(reboot|hourly|daily|weekly|monthly|yearly)"
    r"|\[?(arch|trusted|allow-insecure)=[a-z0-9]{1,12}\]?|/(usr/(local/)?)?s?bin/[A-Za-z0-9_.+-]{1,40}"
)


def outline(line: str) -> str:
    """Return the line, with a mark for omitted words."""
    words = line.split()
    told: list[str] = []
    for at, word in enumerate(words[:40]):
        kept = _kept(word, is_named=not at and _is_named(words))
        if kept != CUT or told[-1:] != [CUT]:
            told.append(kept)
    return " ".join(told)


def _is_named(words: list[str]) -> bool:
    """Return whether the first word is a user or keyword, so that the line can be shown; other first words may be passwords."""
    if len(words) < 2 or not FIRST.fullmatch(words[0]):
        return False
    return bool(WORD.fullmatch(words[1]) or SOURCE.match(words[1]))


def _kept(word: str, *, is_named: bool) -> str:
    if is_named or WORD.fullmatch(word):
        return word
    begun = ASSIGNED.match(word) or SOURCE.match(word)
    return begun.group() + CUT if begun else CUT
