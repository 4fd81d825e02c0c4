"""Hosts by what they are on their site: sites of other sizes then show the same words."""

import json
import re
from collections.abc import Iterable
from typing import Any

from appliance.models.site import Role, Site
from appliance.report.formatting import fold
from tests.golden.compact import compact

WIDTH = 200
"""Of a line: nearly every result stands on one."""


class Whose:
    """Names sets of a site's hosts."""

    def __init__(self, site: Site) -> None:
        names = tuple(host.name for host in site.hosts)
        gpus = tuple(host.name for host in site.with_role(Role.GPU))
        known = {
            gpus[:-1]: "gpu hosts but the last",
            gpus[-1:]: "last gpu host",
            gpus: "gpu hosts",
            names: "all hosts",
        }
        if len(gpus) > 2:
            known[gpus[1:-1]] = "gpu hosts but the first and the last"
        self._names = names
        self._known = {frozenset(hosts): said for hosts, said in known.items()}

    def __call__(self, hosts: Iterable[str]) -> str:
        """``last gpu host``; names, where there is no word for a set."""
        given = set(hosts)
        return self._known.get(frozenset(given)) or fold(n for n in self._names if n in given)

    def folded(self, documents: Iterable[dict[str, Any]]) -> list[str]:
        """Lines of documents with a ``host``: those that differ in nothing else stand once, for all their hosts."""
        alike: dict[str, list[str]] = {}
        for document in documents:
            host = document.pop("host", None)
            document.pop("target", None) if document.get("target") == host else None
            text = json.dumps(document, default=str)
            if host:
                text = re.sub(rf"\b{re.escape(host)}\b(?!-)", "HOST", text)
            alike.setdefault(text, []).append(host or "site")
        return [
            line
            for text, hosts in alike.items()
            for start in [f"{self(hosts) or 'site'}: "]
            for line in (start + compact(json.loads(text), start, WIDTH)).splitlines()
        ]
