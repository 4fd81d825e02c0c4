"""What programs and the kernel go by now, whatever their files say: sshd's settings, a table of the firewall."""

from __future__ import annotations

import hashlib

from appliance.probe.ask import Ask, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

STRANGER = "user=root,host=outside.invalid,addr=203.0.113.1"
"""Who logs in, for what Match blocks decide: root, from an address of nobody (RFC 5737)."""
LIST = ("nft", "--stateless", "--numeric-priority", "--numeric-protocol", "list", "table")
"""Without counters and handles, and without names of /etc/protocols, which a host may lack or get later."""


def sshd_options(ask: Ask) -> dict[str, str]:
    """What sshd would go by if root logged in now, by lower-case keyword. Raises Unreadable."""
    said = ask.run(["sshd", "-T", "-C", STRANGER])
    options: dict[str, str] = {}
    for line in said.splitlines():
        word, _, value = line.partition(" ")
        options[word] = options[word] + ", " + value if word in options else value
    return options


def table(ask: Ask, name: str) -> Facts:
    """The fields of resource kind ``nftables``: a table as the kernel has it loaded. Raises Unreadable."""
    said = ask.run([*LIST, *name.split()], ok=(0, 1))
    if not said:
        # It says no more of a table that is not there than of one it may not see.
        if f"table {name}" in ask.run(["nft", "list", "tables"]).splitlines():
            raise Unreadable(f"nft does not list table {name}")
        return {"loaded": False}
    return {
        "loaded": True,
        "sha256": hashlib.sha256(said.encode()).hexdigest(),
        "lines": statements(said),
    }


def statements(said: str) -> list[str]:
    """Each line of a table with the chain or set it stands in: "chain input: tcp dport 22 accept"."""
    found: list[str] = []
    within: list[str] = []
    for line in (raw.strip() for raw in said.splitlines()):
        if line.endswith("{") and "=" not in line:
            within.append(line[:-1].strip())
            if len(within) > 1:
                found.append(within[-1])
        elif line == "}" and within:
            within.pop()
        elif line:
            found.append(": ".join([*within[1:], line]))
    return found
