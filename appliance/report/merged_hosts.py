"""Merges texts that differ only in the host they name."""

import re
from collections.abc import Iterable
from functools import lru_cache

from appliance.report.formatting import fold

HOST = "HOST"
"""Stands for each host of a row."""


def without_host(text: str, host: str | None) -> str:
    """Return ``text`` with HOST in place of this host's name."""
    return _name_of(host).sub(HOST, text) if host and host in text else text


def of_hosts(text: str, host: str | None, hosts: Iterable[str]) -> str:
    """Apply ``text`` about one host to all of these; their names are folded as ``--hosts`` and ``--hosts`` accept them."""
    if not host or host not in text:
        return text
    names = fold(hosts).replace(", ", ",")
    return _name_of(host).sub(lambda _: names, text)


@lru_cache(maxsize=4096)
def _name_of(host: str) -> re.Pattern[str]:
    """Match the name as a whole word: gpu-1 is not part of gpu-10."""
    return re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-])")
