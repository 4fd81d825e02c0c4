"""Addresses of servers that people type, in a form that clients accept."""

import re
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import SplitResult, urlsplit

from appliance.models.text_types import SERVER

VISIBLE = re.compile(r"[!-~]+")
LONGEST_NAME = 253
"""Characters of a host's name (RFC 1035)."""


def server_in(text: str) -> SplitResult | None:
    """The parts of ``http(s)://HOST[:PORT][/PATH]``; None for anything else."""
    try:
        at = urlsplit(text)
        usable = at.port != 0
    except ValueError:
        return None
    # Resolvers accept an underscore, as in names of containers, and a final dot.
    name = (at.hostname or "").removesuffix(".").replace("_", "x")
    usable &= bool(VISIBLE.fullmatch(text)) and at.scheme in {"http", "https"}
    usable &= len(name) <= LONGEST_NAME and (bool(re.fullmatch(SERVER, name)) or _is_ipv6(name))
    return at if usable and not at.query and not at.fragment else None


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True
