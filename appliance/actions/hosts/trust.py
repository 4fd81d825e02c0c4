"""Trust: shows the SSH keys of the hosts and pins those the user confirms."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.adapters.remote import known_hosts_name
from appliance.adapters.ssh import host_key_fingerprint
from appliance.config import known_hosts_lines
from appliance.config.load import LoadedSite
from appliance.engine.host_names import named_hosts
from appliance.engine.look.gather import each
from appliance.errors import ApplianceError, OutOfFiles


@dataclass(frozen=True)
class Offer:
    """The key of a host, and whether it is new, pinned, or different from the pinned one."""

    host: str
    name: str
    kind: str
    key: str
    fingerprint: str
    state: str

    @property
    def line(self) -> str:
        """Its line in known_hosts."""
        return f"{self.name} {self.kind} {self.key}\n"


def offers(
    loaded: LoadedSite, hosts: Sequence[str] = ()
) -> tuple[list[Offer], dict[str, ApplianceError]]:
    """Reads the keys of the hosts, in parallel; hosts that do not answer are returned with the reason. In the site's order."""
    site = loaded.site
    only = named_hosts(hosts, [h.name for h in site.hosts], flag="--hosts")
    pinned = _pinned(loaded.folder / site.access.known_hosts)
    addresses = {h.name: str(h.address) for h in site.hosts if not only or h.name in only}
    found: list[Offer] = []
    silent: dict[str, ApplianceError] = {}
    for host, shown in each(addresses, lambda h: _shown(addresses[h], site.access.port)):
        if isinstance(shown, ApplianceError):
            silent[host] = shown
            continue
        kind, key, fingerprint = shown
        name = known_hosts_name(addresses[host], site.access.port)
        known = pinned.get(name, [])
        state = "pinned" if (kind, key) in known else "changed" if known else "new"
        found.append(Offer(host, name, kind, key, fingerprint, state))
    return found, silent


def _shown(address: str, port: int) -> tuple[str, str, str] | ApplianceError:
    try:
        return host_key_fingerprint(address, port)
    except OutOfFiles:
        raise
    except ApplianceError as error:
        return error


def shared(loaded: LoadedSite, found: Sequence[Offer]) -> list[tuple[str, ...]]:
    """Hosts with the same key, shown now or pinned before: one machine, or clones of one image."""
    site = loaded.site
    pinned = _pinned(loaded.folder / site.access.known_hosts)
    alike: dict[str, list[str]] = {}
    shown = {offer.host: offer.key for offer in found}
    for host in site.hosts:
        name = known_hosts_name(str(host.address), site.access.port)
        before = {key for _, key in pinned.get(name, ())}
        for key in {shown[host.name]} if host.name in shown else before:
            alike.setdefault(key, []).append(host.name)
    return [tuple(h) for h in alike.values() if len(h) > 1 and not shown.keys().isdisjoint(h)]


def pin(
    loaded: LoadedSite, chosen: Sequence[Offer], confirm: Callable[[Offer], bool]
) -> list[Offer]:
    """Writes the confirmed keys to the site's known_hosts, replacing older ones of the same host."""
    accepted = [o for o in chosen if o.state != "pinned" and confirm(o)]
    if not accepted:
        return []
    file = loaded.folder / loaded.site.access.known_hosts
    known_hosts_lines.replace(file, {o.name: o.line for o in accepted})
    return accepted


def _pinned(file: Path) -> dict[str, list[tuple[str, str]]]:
    known: dict[str, list[tuple[str, str]]] = {}
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            words = line.split()
            for name in known_hosts_lines.names(line):
                known.setdefault(name, []).append((words[1], words[2]))
    return known
