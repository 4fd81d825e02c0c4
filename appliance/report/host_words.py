"""Words that differ in the host they name alone, said once for all of these hosts."""

import re
from collections.abc import Iterable
from functools import lru_cache

from appliance.report.wording import fold

HOST = "HOST"
"""Stands for each host of a row."""


def without_host(text: str, host: str | None) -> str:
    """``text`` with HOST in the place of this host's name."""
    return _name_of(host).sub(HOST, text) if host and host in text else text


def of_hosts(text: str, host: str | None, hosts: Iterable[str]) -> str:
    """What ``text`` says of one host, said of all of these; their names as ``--limit`` and ``--host`` take them."""
    if not host or host not in text:
        return text
    names = fold(hosts).replace(", ", ",")
    return _name_of(host).sub(lambda _: names, text)


@lru_cache(maxsize=4096)
def _name_of(host: str) -> re.Pattern[str]:
    """The name standing alone: gpu-1 is no part of gpu-10."""
    return re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-])")
