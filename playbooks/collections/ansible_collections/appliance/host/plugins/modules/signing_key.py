#!/usr/bin/python
"""Puts a repository's signing key in place, if it is the one that was named."""

from __future__ import annotations

DOCUMENTATION = r"""
module: signing_key
short_description: A repository's OpenPGP key, accepted by its fingerprint only
description:
  - Fetches the key where the file is not there or is another one; nothing is written unless its fingerprint is the one given.
  - Fetches it again where it expires within 30 days. A maker gives the same key a longer life, and apt refuses what is signed
    by a copy that does not know.
options:
  url: {description: Where the key is., type: str, required: true}
  fingerprint: {description: Forty hexadecimal digits., type: str, required: true}
  path: {description: Where it is kept., type: path, required: true}
"""

EXAMPLES = r"""
- name: Install | Trust the repository's key
  appliance.host.signing_key:
    url: https://mirror.example/nvidia/3bf863cc.pub
    fingerprint: EB693B3035CD5710E231E123A4B469963BF863CC
    path: /usr/share/keyrings/appliance-nvidia.asc
"""

RETURN = r"""
resources: {description: What is managed, as kind and name., type: list, returned: always}
"""

import base64
import binascii
import hashlib
import os
import re
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PUBLIC_KEY, SIGNATURE = 6, 2
OF_ITSELF = (0x10, 0x11, 0x12, 0x13, 0x1F)
"""Signatures over a primary key that may say how long it lives (RFC 4880, 5.2.1)."""
LIFETIME = 9
SPARE_SECONDS = 30 * 86400
MOST = 1 << 20


def unarmoured(text: bytes) -> bytes:
    """The packets of a key, whether it is armoured or not (RFC 4880, 6.2)."""
    if b"-----BEGIN PGP PUBLIC KEY BLOCK-----" not in text:
        return text
    block = text.decode("ascii", "replace").split("-----BEGIN PGP PUBLIC KEY BLOCK-----", 1)[1]
    body = re.split(r"\r?\n[ \t]*\r?\n", block.split("-----END", 1)[0], maxsplit=1)[-1]
    lines = [line.strip() for line in body.splitlines()]
    try:
        return base64.b64decode("".join(line for line in lines if line and line[0] != "="))
    except binascii.Error:
        return b""


def packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and body of each packet (RFC 4880, 4.2)."""
    at = 0
    while at < len(data) and data[at] & 0x80:
        head = data[at]
        if head & 0x40:
            tag, length, start = head & 0x3F, *_new_length(data, at + 1)
        else:
            tag, size = head >> 2 & 0xF, (1, 2, 4, 0)[head & 3]
            start = at + 1 + size
            length = int.from_bytes(data[at + 1 : start], "big") if size else len(data) - start
        yield tag, data[start : start + length]
        if start + length <= at:
            return
        at = start + length


def fingerprints(data: bytes) -> list[str]:
    """Of the primary keys of version 4 among the packets (RFC 4880, 12.2)."""
    framed = [b"\x99" + len(body).to_bytes(2, "big") + body for body in _keys(data)]
    return [hashlib.sha1(text).hexdigest().upper() for text in framed]


def expires(data: bytes) -> int:
    """When the first primary key does, in seconds since 1970; 0 for never (RFC 4880, 5.2.3.6)."""
    made = next((int.from_bytes(body[1:5], "big") for body in _keys(data)), 0)
    lives = [
        int.from_bytes(text, "big")
        for tag, body in packets(data)
        if tag == SIGNATURE and body[:1] == b"\4" and body[1:2] and body[1] in OF_ITSELF
        for kind, text in _told(body)
        if kind == LIFETIME
    ]
    return made + max(lives) if lives else 0


def _keys(data: bytes) -> list[bytes]:
    return [body for tag, body in packets(data) if tag == PUBLIC_KEY and body[:1] == b"\4"]


def _told(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and content of what a signature of version 4 covers beside the key."""
    at, end = 6, 6 + int.from_bytes(body[4:6], "big")
    while at < min(end, len(body)):
        length, start = _new_length(body, at)
        if length < 1 or start >= len(body):
            return
        yield body[start] & 0x7F, body[start + 1 : start + length]
        at = start + length


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    first = data[at] if at < len(data) else 0
    if first < 192:
        return first, at + 1
    if first < 255:
        second = data[at + 1] if at + 1 < len(data) else 0
        return (first - 192 << 8) + second + 192, at + 2
    return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {
            "url": {"required": True},
            "fingerprint": {"required": True},
            "path": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    path, url = module.params["path"], module.params["url"]
    wanted = re.sub(r"\s", "", module.params["fingerprint"]).upper()
    resources = [{"kind": "file", "name": path}]
    try:
        with open(path, "rb") as file:
            there = file.read()
    except OSError:
        there = b""
    ours, end = fingerprints(unarmoured(there)) == [wanted], expires(unarmoured(there))
    if ours and not 0 < end < time.time() + SPARE_SECONDS:
        module.exit_json(changed=False, resources=resources)
    try:
        text = open_url(url, timeout=30, http_agent="appliance").read(MOST)
    except Exception as error:  # noqa: BLE001 - the library raises what urllib, ssl and sockets do
        if ours:
            module.exit_json(changed=False, resources=resources)
        module.fail_json(msg=f"the signing key cannot be fetched from {url}: {error}")
    found = fingerprints(unarmoured(text))
    # A second key in the file would be trusted as much as the first.
    if found != [wanted]:
        told = ", ".join(found) or "none"
        module.fail_json(
            msg=f"the key at {url} is not the one that was named: its fingerprint is {told}, wanted is {wanted};"
            " ask whose repository this is before you change its fingerprint in section repositories"
        )
    if text != there and not module.check_mode:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with open(f"{path}.new", "wb") as file:
            file.write(text)
        os.chmod(f"{path}.new", 0o644)
        os.replace(f"{path}.new", path)
    module.exit_json(changed=text != there, resources=resources)


if __name__ == "__main__":
    main()
