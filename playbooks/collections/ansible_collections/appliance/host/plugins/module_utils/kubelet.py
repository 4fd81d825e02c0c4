"""What kubelet says of itself, where a program waits for it in vain."""

from __future__ import annotations

import re

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST = 300
_REASON = re.compile(r'err="((?:[^"\\]|\\.)*)"')


def last_words(run: Callable[..., Any]) -> str:
    """For the end of a message: the last line of a kubelet that does not stay up; empty where it does. ``run`` is AnsibleModule's."""
    code, _, _ = run(["systemctl", "is-active", "--quiet", "kubelet"])
    if not code:
        return ""
    # What systemd says of the unit has another identifier.
    words = ["--unit", "kubelet", "--identifier", "kubelet", "--output", "cat", "--lines", "20"]
    code, out, _ = run(["journalctl", "--no-pager", *words])
    said = reason(out) if not code else ""
    return f"; kubelet ends: {said}" if said else "; kubelet does not run (journalctl -u kubelet)"


def reason(lines: str) -> str:
    """The last line with an error, and of it what comes after err=; else the last line."""
    found = [line.strip() for line in lines_of(lines) if line.strip()]
    told = [line for line in found if _REASON.search(line)]
    if told:
        inner: str = _REASON.findall(told[-1])[-1]
        return inner.replace('\\"', '"').replace("\\n", " ")[:MOST]
    return found[-1][:MOST] if found else ""
