"""Helm's program and archives of charts: used only where they are what their digests say."""

from __future__ import annotations

import os

from ansible_collections.appliance.host.plugins.module_utils.disk import sha256, stated_sha256
from ansible_collections.appliance.host.plugins.module_utils.guarded import guarded
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

PROGRAM = "/usr/local/lib/appliance/helm"
"""Where role kubernetes puts it, by the digest of its maker's archive."""


def proved(path: str, pinned: str = "") -> str:
    """The path, where the file is what the digest beside it says, and the one pinned if any.

    Raises Problem, also where others than root could exchange it before Helm reads it.
    """
    guarded(path + ".sha256")
    guarded(path)
    try:
        stated, found = stated_sha256(path), sha256(path)
    except OSError:
        raise Problem(
            f"the offline source lacks {path} or the digest beside it, {path}.sha256"
        ) from None
    if found != stated:
        raise Problem(f"{path} is not what its .sha256 says: copy the offline source again")
    if pinned and found != pinned.lower():
        raise Problem(f"{path} is another archive than the one pinned: its sha256 is {found}")
    return path


def program_of(source: str) -> str:
    """Helm's program: the offline source's, or the one that was brought."""
    return proved(os.path.join(source, "bin/helm")) if source else PROGRAM


def chart_of(source: str, chart: str, title: str, pinned: str) -> str:
    """The chart as Helm is told of it: an archive of the offline source, or where it is fetched."""
    if not source:
        return chart
    return proved(os.path.join(source, "charts", f"{title}.tgz"), pinned)
