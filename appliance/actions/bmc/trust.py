"""Trust of BMCs: shows their certificates and pins those the user confirms."""

from collections.abc import Callable, Sequence

from appliance.actions.hosts.trust import Offer
from appliance.adapters.redfish import certificate
from appliance.config import known_bmcs
from appliance.config.load import LoadedSite
from appliance.engine.host_names import named_hosts
from appliance.engine.look.gather import each
from appliance.errors import ApplianceError, ConfigError
from appliance.models.site import Bmc

TLS = "certificate"


def offers(
    loaded: LoadedSite, hosts: Sequence[str] = ()
) -> tuple[list[Offer], dict[str, ApplianceError]]:
    """Connects to the BMCs in parallel; sends no password. BMCs that do not answer are returned with the reason.

    Raises ConfigError for an unknown host, and if none of them has a BMC that is pinned.
    """
    only = named_hosts(hosts, [h.name for h in loaded.site.hosts], flag="--hosts")
    bmcs = {
        h.name: h.bmc
        for h in loaded.site.hosts
        if h.bmc and not h.bmc.authority and (not only or h.name in only)
    }
    if not bmcs:
        raise ConfigError(
            "none of these hosts has a BMC with a pinned certificate",
            "add hosts[].bmc; a BMC with hosts[].bmc.authority needs no pin",
        )
    pinned = known_bmcs.read(loaded.folder)
    found: list[Offer] = []
    silent: dict[str, ApplianceError] = {}
    for host, shown in each(bmcs, lambda h: _shown(bmcs[h])):
        if isinstance(shown, ApplianceError):
            silent[host] = shown
            continue
        name = known_bmcs.name_of(bmcs[host])
        known = pinned.get(name)
        state = "pinned" if known == shown else "changed" if known else "new"
        found.append(Offer(host, name, TLS, shown, f"SHA256:{shown}", state))
    return found, silent


def _shown(bmc: Bmc) -> str | ApplianceError:
    try:
        return certificate(str(bmc.address), bmc.port)
    except ApplianceError as error:
        return error


def shared(found: Sequence[Offer]) -> list[tuple[str, ...]]:
    """Hosts whose BMCs show the same certificate: the vendor's default, whose private key is public."""
    alike: dict[str, list[str]] = {}
    for offer in found:
        alike.setdefault(offer.key, []).append(offer.host)
    return [tuple(hosts) for hosts in alike.values() if len(hosts) > 1]


def pin(
    loaded: LoadedSite, chosen: Sequence[Offer], confirm: Callable[[Offer], bool]
) -> list[Offer]:
    """Writes the confirmed fingerprints to the site's known_bmcs, replacing older ones of the same BMC."""
    accepted = [o for o in chosen if o.state != "pinned" and confirm(o)]
    if accepted:
        pinned = known_bmcs.read(loaded.folder) | {o.name: o.key for o in accepted}
        known_bmcs.write(loaded.folder, pinned)
    return accepted
