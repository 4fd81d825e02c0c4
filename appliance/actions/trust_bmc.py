"""Trust of management controllers: shows the certificates they present and pins those the user confirms."""

from collections.abc import Callable, Sequence

from appliance.actions.trust import Offer
from appliance.adapters.redfish import certificate
from appliance.config import known_bmcs
from appliance.config.load import LoadedSite
from appliance.engine.gather import each
from appliance.engine.named import named
from appliance.errors import ApplianceError, ConfigError
from appliance.models.site import Bmc

TLS = "certificate"


def offers(
    loaded: LoadedSite, hosts: Sequence[str] = ()
) -> tuple[list[Offer], dict[str, ApplianceError]]:
    """Asks the controllers side by side; sends no password. Those that do not answer come with their reason.

    Raises ConfigError for a host there is not, and where none of them has a controller that is pinned.
    """
    only = named(hosts, [h.name for h in loaded.site.hosts], flag="--host")
    bmcs = {
        h.name: h.bmc
        for h in loaded.site.hosts
        if h.bmc and not h.bmc.authority and (not only or h.name in only)
    }
    if not bmcs:
        raise ConfigError(
            "none of these hosts has a management controller whose certificate is pinned",
            "write hosts[].bmc; those with hosts[].bmc.authority need no pin",
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
    """Hosts whose controllers show one and the same certificate: a maker's own, of which everybody has the key."""
    alike: dict[str, list[str]] = {}
    for offer in found:
        alike.setdefault(offer.key, []).append(offer.host)
    return [tuple(hosts) for hosts in alike.values() if len(hosts) > 1]


def pin(
    loaded: LoadedSite, chosen: Sequence[Offer], confirm: Callable[[Offer], bool]
) -> list[Offer]:
    """Writes the confirmed fingerprints into the site's known_bmcs, replacing older ones of the same controller."""
    accepted = [o for o in chosen if o.state != "pinned" and confirm(o)]
    if accepted:
        pinned = known_bmcs.read(loaded.folder) | {o.name: o.key for o in accepted}
        known_bmcs.write(loaded.folder, pinned)
    return accepted
