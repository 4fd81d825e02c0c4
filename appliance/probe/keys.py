"""Keys of an authorized_keys file by their fingerprints."""

from __future__ import annotations

import base64
import binascii
import hashlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def fingerprints(text: str) -> Iterator[tuple[str, str]]:
    """Fingerprint of each key, and the line as people read it: options, fingerprint, remark."""
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        for place, word in enumerate(words):
            key = _fingerprint(word)
            if key:
                yield key, " ".join([*words[:place], key, *words[place + 1 :]])
                break
        else:
            yield "", " ".join(words)


def _fingerprint(word: str) -> str:
    """As ssh-keygen -l has it; empty where this is no key (RFC 4253, 6.6: it begins with the length of its kind)."""
    if not word.startswith("AAAA"):
        return ""
    try:
        blob = base64.b64decode(word, validate=True)
    except (binascii.Error, ValueError):
        return ""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
