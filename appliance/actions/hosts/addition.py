"""Addition: a new host enters site.yml, its key is pinned with consent, and it is deployed with what the others need."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from appliance.actions.deployment.deploy import Deployed, deploy
from appliance.actions.hosts.other_hosts import deploy_others, pending
from appliance.actions.hosts.replacement import KeyOffer, trusted
from appliance.actions.profiles.limit_bounds import check_ids
from appliance.actions.sites.opening import Target, locate
from appliance.config.load import LoadedSite, load_site
from appliance.config.site_edit import replace_file, with_added
from appliance.engine.plan.selection import Filters
from appliance.errors import ConfigError
from appliance.models.events import Observer


@dataclass(frozen=True)
class Added:
    """The result. ``deployed``: of the new host, or of the others if that failed."""

    host: str
    declined: bool = False
    deployed: Deployed | None = None
    others: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Exit as for deploy."""
        return self.deployed.exit_code if self.deployed else int(self.declined)


def add_host(
    target: Target,
    name: str,
    address: str,
    roles: Sequence[str],
    hardware_class: str | None,
    observer: Observer,
    consent: Callable[[tuple[str, ...]], bool],
    may_pin: Callable[[KeyOffer], bool],
) -> Added:
    """Add one host, which has a system with the site's key; ``consent`` sees the difference of site.yml.

    Raises ConfigError before any change if the site would be invalid; ApplianceError if the host does not answer: site.yml stays.
    """
    loaded = locate(target, observer=observer)
    if name in {host.name for host in loaded.site.hosts}:
        raise ConfigError(
            f"{name} is in the site already",
            f"to deploy it: appliance deploy --hosts {name}; for a new machine: appliance node replace {name}",
        )
    file = loaded.site_document.file

    def load(path: Path) -> LoadedSite:
        return load_site(path, target.profile, check_ids=check_ids())

    keys = {"name": name, "roles": f"[{', '.join(roles)}]", "address": address}
    if hardware_class:
        keys["class"] = hardware_class
    with with_added(file, keys, load) as (text, new_text, new, with_it):
        lines = text.splitlines(), new_text.splitlines()
        if not consent(tuple(unified_diff(*lines, str(file), str(file), lineterm=""))):
            return Added(name, declined=True)
        before = pending(target, observer, name)
        if trusted(with_it, name, may_pin) is None:
            return Added(name, declined=True)
        replace_file(new, file.resolve())
    # slurmctld must list the host before its slurmd can register.
    first, failed = deploy_others(target, observer, name, before)
    if failed:
        return Added(name, deployed=failed, others=first)
    done = deploy(target, Filters(limit=(name,)), observer, lambda _: True)
    if done.record is None or done.exit_code not in {0, 3}:
        return Added(name, deployed=done, others=first)
    # What only its deployment has shown, as the GUIDs of its adapters.
    then, failed = deploy_others(target, observer, name, before)
    return Added(name, deployed=failed or done, others=tuple(sorted({*first, *then})))
