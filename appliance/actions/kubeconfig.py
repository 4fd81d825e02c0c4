"""Kubeconfig: which file speaks to a site's cluster, and one's own, with a certificate that lives for days."""

import os
from pathlib import Path

from appliance.actions.opening import NoSite, Target, locate, open_session
from appliance.config.load import LoadedSite
from appliance.engine.kubeconfig import NAME, Fetched, issue
from appliance.errors import ConfigError
from appliance.models.events import Observer


def of_site(loaded: LoadedSite) -> Path:
    """As the site says, else ``kubeconfig`` in its folder."""
    return loaded.folder / (loaded.site.external_cluster or NAME)


def by_variable() -> Path | None:
    """The file that KUBECONFIG names. Raises ConfigError for several: kubectl makes one cluster's view of them, and another may be meant."""
    given = os.environ.get("KUBECONFIG", "")
    files = tuple(dict.fromkeys(filter(None, given.split(os.pathsep))))
    if len(files) > 1:
        raise ConfigError(
            f"the variable KUBECONFIG names several files, {given}",
            "say which is meant with --kubeconfig FILE",
        )
    return Path(files[0]) if files else None


def chosen(flag: Path | None, loaded: LoadedSite) -> Path:
    """The one to use for a site: by flag, its own, by the variable KUBECONFIG. Raises ConfigError where the last two are two clusters."""
    own = of_site(loaded)
    given = None if flag else by_variable()
    if given is None:
        return flag or own
    if own.exists() and own.resolve() != given.resolve():
        raise ConfigError(
            f"the variable KUBECONFIG names {given}, and site {loaded.site.name} has its own, {own}",
            "unset KUBECONFIG, or say which is meant with --kubeconfig FILE",
        )
    return given


def find(flag: Path | None, target: Target, observer: Observer) -> Path:
    """As ``chosen``, where a site is named or here; else by flag or KUBECONFIG. Raises ConfigError where there is nobody to ask."""
    if flag:
        return flag
    try:
        return chosen(flag, locate(target, raise_rack=False, observer=observer))
    except NoSite:
        if given := by_variable():
            return given
        raise ConfigError(
            "no kubeconfig was named",
            "name a site with --inventory DIR, or a file with --kubeconfig, or in the variable KUBECONFIG",
        ) from None


def fetch(target: Target, days: int, observer: Observer) -> Fetched:
    """Has a control host sign a key made here, and writes the site's kubeconfig (0600). Raises ApplianceError."""
    with open_session(target, NAME, observer) as session:
        return issue(session.remote, session.site, session.folder, days)
