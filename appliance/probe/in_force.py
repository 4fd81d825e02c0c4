"""Settings in force, independent of files: of sshd, and of a firewall table."""

from __future__ import annotations

import hashlib
from fnmatch import fnmatchcase

from appliance.probe.ask import Ask
from appliance.probe.lines import lines_of
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from appliance.probe.ask import Facts

STRANGER = "user=root,host=outside.invalid,addr=203.0.113.1"
"""The login for Match blocks: root, from a documentation address (RFC 5737)."""
WEAK = {
    # Small or NIST's curves and groups, SHA-1, and groups whose size the client may talk down to 2,048 bits.
    "kexalgorithms": (
        *("ecdh-sha2-nistp*", "diffie-hellman-group1-*", "diffie-hellman-group14-*"),
        "diffie-hellman-group-exchange-*",
    ),
    "ciphers": ("*-cbc", "*-cbc@*", "arcfour*"),
    # SHA-1, MD5, tags of 64 bits, and what signs the text before it is enciphered.
    "macs": (
        *("hmac-sha1*", "hmac-md5*", "umac-64*", "umac-128@openssh.com"),
        *("hmac-sha2-256", "hmac-sha2-512"),
    ),
    "hostkeyalgorithms": ("ssh-rsa", "ssh-rsa-cert-*", "ssh-dss*"),
}
"""Weak algorithms by list of sshd_config(5): ssh-audit's failures, and its warnings of the same kinds (ssh-audit.com, hardening guides of Debian 12, Ubuntu 24.04 and Rocky 9, 2026-11). Also in roles/base/vars/main.yml."""
NIST = ("*ecdsa-*",)
"""Host keys on NIST's curves: ssh-audit fails them, but some sites have pinned no others."""
LIST = ("nft", "--stateless", "--numeric-priority", "--numeric-protocol", "list", "table")
"""List without counters, handles, and names of /etc/protocols, which a host may lack."""


def sshd_options(ask: Ask) -> dict[str, str]:
    """Return sshd's settings for a login of root by lower-case keyword, and its weak algorithms. Raises Unreadable."""
    said = ask.run(["sshd", "-T", "-C", STRANGER])
    options: dict[str, str] = {}
    for line in lines_of(said):
        word, _, value = line.partition(" ")
        options[word] = options[word] + ", " + value if word in options else value
    asked = {f"weak {word}": (word, patterns) for word, patterns in WEAK.items()}
    asked["nist hostkeyalgorithms"] = ("hostkeyalgorithms", NIST)
    weak = {name: _weak(options[word], p) for name, (word, p) in asked.items() if word in options}
    return {**options, **weak}


def _weak(said: str, patterns: Sequence[str]) -> str:
    """Return the algorithms of a list that match a pattern."""
    found = [name for name in said.split(",") if any(fnmatchcase(name, p) for p in patterns)]
    return ",".join(found) or "none"


def table(ask: Ask, name: str) -> Facts:
    """Return the fields of resource kind ``nftables``: a table as loaded in the kernel. Raises Unreadable."""
    said = ask.run([*LIST, *name.split()], ok=(0, 1))
    if not said:
        # It says no more of a table that is not there than of one it may not see.
        if f"table {name}" in lines_of(ask.run(["nft", "list", "tables"])):
            raise Unreadable(f"nft does not list table {name}")
        return {"loaded": False}
    return {
        "loaded": True,
        "sha256": hashlib.sha256(said.encode()).hexdigest(),
        "lines": statements(said),
    }


def statements(said: str) -> list[str]:
    """Return each line of a table with its chain or set: "chain input: tcp dport 22 accept"."""
    found: list[str] = []
    within: list[str] = []
    for line in (raw.strip() for raw in lines_of(said)):
        if line.endswith("{") and "=" not in line:
            within.append(line[:-1].strip())
            if len(within) > 1:
                found.append(within[-1])
        elif line == "}" and within:
            within.pop()
        elif line:
            found.append(": ".join([*within[1:], line]))
    return found
