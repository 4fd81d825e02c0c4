"""Kubeconfig: selects the file for a site's cluster, and issues one with a certificate valid for days."""

import os
from pathlib import Path

from appliance.actions.sites.opening import NoSite, Target, locate, open_session
from appliance.config.load import LoadedSite
from appliance.engine.run.kubeconfig import NAME, Fetched, issue
from appliance.errors import ConfigError
from appliance.models.events import Observer


def of_site(loaded: LoadedSite) -> Path:
    """From the site, else ``kubeconfig`` in its folder."""
    return loaded.folder / (loaded.site.external_cluster or NAME)


def by_variable() -> Path | None:
    """The file in KUBECONFIG. Raises ConfigError for several files: kubectl merges them, so another cluster may be meant."""
    given = os.environ.get("KUBECONFIG", "")
    files = tuple(dict.fromkeys(filter(None, given.split(os.pathsep))))
    if len(files) > 1:
        raise ConfigError(
            f"KUBECONFIG lists several files: {given}",
            "choose one with --kubeconfig FILE",
        )
    return Path(files[0]) if files else None


def chosen(flag: Path | None, loaded: LoadedSite) -> Path:
    """The file for a site: from the flag, its own, or KUBECONFIG. Raises ConfigError if the last two differ."""
    own = of_site(loaded)
    given = None if flag else by_variable()
    if given is None:
        return flag or own
    if own.exists() and own.resolve() != given.resolve():
        raise ConfigError(
            f"KUBECONFIG is {given}, but site {loaded.site.name} has its own, {own}",
            "unset KUBECONFIG, or choose one with --kubeconfig FILE",
        )
    return given


def find(flag: Path | None, target: Target, observer: Observer) -> Path:
    """Like ``chosen`` for a site; else from the flag or KUBECONFIG. Raises ConfigError if there is none."""
    if flag:
        return flag
    try:
        return chosen(flag, locate(target, raise_rack=False, observer=observer))
    except NoSite:
        if given := by_variable():
            return given
        raise ConfigError(
            "no kubeconfig was given",
            "select a site with --site DIR, or a file with --kubeconfig or KUBECONFIG",
        ) from None


def fetch(target: Target, days: int, observer: Observer) -> Fetched:
    """Has a control host sign a key created here, and writes the site's kubeconfig (0600). Raises ApplianceError."""
    with open_session(target, NAME, observer) as session:
        return issue(session.remote, session.site, session.folder, days)
