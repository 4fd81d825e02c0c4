"""Masks secrets that no one named: by what stands before them, by their prefix, or because they are random text.

Python 3.8 and newer: hosts mask what they read before they send it. Known secrets are masked on the control machine
(appliance/config/secrets.py). A word too many is masked rather than a secret shown.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MASK = "***"
END = r"-----END [A-Z0-9 ]{0,40}-----"
BODY = (
    r"\n(?:[A-Za-z0-9+/=]{0,128}|[A-Za-z-]{1,20}:[ ][^\n]{0,200}"
    r"|[^\n]{0,200}?(?:(?<![A-Za-z0-9+/=])[A-Za-z0-9+/=]{16,128}|(?:Proc-Type|DEK-Info|Comment|Version):[ ][^\n]{0,200}))[ \t\r]{0,8}(?=\n|\Z)"
)
"""A line of a key in PEM, also with the time and host of a log before it."""
PRIVATE = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:[^\n]*?{END}|[^\n]*(?:{BODY})*(?:(?:\n[^\n]{{0,400}})?\n[^\n]*?{END})?)"
)
"""A key to its end, and without an end the lines that look like one. Anybody can put its beginning into a log, by a login
with this user name: the lines after it must stay."""
NAMED = re.compile(
    r"(?P<name>(?:passw(?:or)?d|passphrase|passcode|secret|token|credential|community|api_?-?key|access_?-?key|private_?-?key"
    r"|auth_?-?key|munge_?-?key|(?<!by)pass(?![a-z])|pwd(?![a-z])|psk(?![a-z])|(?<![a-z])_?auth(?![a-z]))[a-z0-9_.-]{0,24})"
    r"(?P<sign>\\{0,3}[\"']?[ \t]{0,3}(?:=>?|:|>|%3[ad])[ \t]{0,40}|[ \t]{1,40})"
    r"(?P<value>\\{0,3}\"[^\"\n]{1,1024}\"|'[^'\n]{1,1024}'|[^\s,;&\"'<>]{1,4096}(?:[,;&][^\s,;&\"'=:<>]{1,256}(?![^\s]{0,256}[=:])){0,8})",
    re.I,
)
"""A name, what follows it, and a value; only after a blank the value may be a word of a sentence."""
SENTENCE = re.compile(
    r"(?:for|is|was|are|not|no|of|from|to|in|on|by|with|and|or|may|must|will|has|file|files|mode|auth\w*|expired|expires"
    r"|required|check|changed|service|helper|invalid|request\w*|manager|plugin|type|kubernetes\.io\S*|none)[.,:;)]?",
    re.I,
)
SWITCH = re.compile(r"(?:yes|no|on|off|true|false|[0-9]{1,3}|null|\*\*\*|\(null\))[.,:;)]?", re.I)
"""Values that are no secrets."""
WORDS = ("auth", "_auth", "credential")
"""Names that are words of sentences: only a sign makes what follows a value."""
SCHEME = re.compile(
    r"\b(?P<before>(?:bearer|basic|negotiate)\s{1,4})(?P<value>[A-Za-z0-9._~+/=-]{8,})", re.I
)
HEADER = re.compile(
    r"(?P<before>\b(?:proxy-)?authorization|\b(?:set-)?cookie|\bx-[a-z-]{0,20}(?:key|token))(?P<sign>[\"']?\s{0,3}[:=]\s{0,3})[^\r\n]+",
    re.I,
)
LOGIN = re.compile(r"://[^/\s@\"'<>]{1,512}@")
QUERY = re.compile(r"(?P<before>[?&](?:key|sig|signature|code|x-amz-[a-z-]+)=)[^&\s\"']+", re.I)
PREFIXED = re.compile(
    r"\b(?:gh[opsur]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|hf_\w{16,}|nvapi-[\w-]{16,}|sk-[\w-]{16,}|xox[abeprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|ya29\.[\w-]{16,}|eyJ[\w-]{8,512}\.[\w-]+(?:\.[\w-]*)?"
    r"|AGE-SECRET-KEY-\w+|dckr_pat_[\w-]{16,})"
)
HOOK = re.compile(
    r"(?P<before>://(?:hooks\.slack\.com/services|[\w.-]+\.webhook\.office\.com|discord(?:app)?\.com/api/webhooks)/)[^\s\"']+"
)
COMMAND = re.compile(
    r"(?P<before>\bsshpass[ ]{1,4}-p[ ]{0,4}|\bcurl\b[^\n]{0,400}?[ ](?:-u|--user)[ =]{0,4}[^\s:]{1,64}:"
    r"|\b(?:mysql|mariadb)\w{0,20}\b[^\n]{0,400}?[ ]-p(?=\S))(?P<value>\"[^\"\n]{1,1024}\"|'[^'\n]{1,1024}'|\S{1,1024})"
)
"""Passwords among the arguments of programs: sudo logs whole commands."""
CRYPT = re.compile(r"\$(?:y|gy|7|2[abxy]|[156]|sha1|md5)\$[^\s:\"']{8,}")
JOINING = re.compile(r"\.(?<=\b[a-z0-9]{6}\.)[a-z0-9]{16}\b")
"""The secret part of a token with which a host joins Kubernetes."""
RANDOM = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,}={0,2}(?![A-Za-z0-9+/_-])")
PUBLIC = ("SHA256:", "sha256-")
"""What stands before a fingerprint of a public key, and a digest."""
HINTS = (
    *("pass", "pwd", "psk", "secret", "token", "credential", "community", "key", "auth"),
    *(
        "bearer",
        "basic",
        "negotiate",
        "cookie",
        "gho_",
        "ghp_",
        "ghs_",
        "ghu_",
        "ghr_",
        "github_pat",
    ),
    *("glpat", "hf_", "nvapi-", "sk-", "xox", "akia", "asia", "ya29.", "eyj", "dckr_pat"),
)
PUNCTUATION = re.compile("[/+=_-]")
CLASSES = str.maketrans(
    {
        **dict.fromkeys(map(chr, range(ord("a"), ord("z") + 1)), "l"),
        **dict.fromkeys(map(chr, range(ord("A"), ord("Z") + 1)), "U"),
        **dict.fromkeys("0123456789", "d"),
    }
)


def masked(text: str) -> str:
    """The text with everything that looks like a secret replaced by ``***``."""
    for pattern, said in RULES:
        text = pattern.sub(said, text)
    return "\n".join(map(_line, text.split("\n")))


def _line(line: str) -> str:
    """The rules that are slow are tried only where one of their words is."""
    small = line.lower()
    if not any(hint in small for hint in HINTS):
        return line
    for pattern, said in RULES_OF_HINTS:
        line = pattern.sub(said, line)
    return line


def _named(found: re.Match[str]) -> str:
    value = found["value"]
    if SWITCH.fullmatch(value):
        return found[0]
    is_word = not found["sign"].strip(" \t\"'\\")
    if is_word and (SENTENCE.fullmatch(value) or found["name"].lower().startswith(WORDS)):
        return found[0]
    return found["name"] + found["sign"] + MASK


def _random(found: re.Match[str]) -> str:
    """Whether cases and digits alternate as they do in random text, and not as in names and paths."""
    word = found[0]
    kinds = PUNCTUATION.sub("", word).translate(CLASSES)
    if min(kinds.count("U"), kinds.count("l")) < 4:
        return word
    changes = sum(a != b for a, b in zip(kinds, kinds[1:]))  # noqa: B905, RUF007 - Python 3.8
    before = found.string[max(0, found.start() - 7) : found.start()]
    # Names have capitals that stand alone, and few digits.
    is_mixed = kinds.count("d") > 1 or kinds.count("UU") > 2
    return MASK if is_mixed and changes > 0.36 * len(kinds) and before not in PUBLIC else word


def _kept(found: re.Match[str]) -> str:
    said = found.groupdict()
    return said["before"] + (said.get("sign") or "") + MASK


if TYPE_CHECKING:
    Rules = tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str] | str], ...]

RULES: Rules = (
    (PRIVATE, MASK),
    (LOGIN, f"://{MASK}@"),
    (HOOK, _kept),
    (QUERY, _kept),
    (COMMAND, _kept),
    (CRYPT, MASK),
    (JOINING, "." + MASK),
    (RANDOM, _random),
)
RULES_OF_HINTS: Rules = ((HEADER, _kept), (SCHEME, _kept), (NAMED, _named), (PREFIXED, MASK))
