"""Where the parts of a site's air-gap bundle lie: fetched to there, and served to its hosts from there."""

from appliance.models.facts import HostFacts
from appliance.models.site import Site

SYSTEMS = frozenset({"debian", "ubuntu"})
"""Distributions whose packages a bundle can contain."""
PLACES = {
    "distribution": "{id}",
    "nvidia": "nvidia-{release}",
    "containerd": "docker-{id}",
    "kubernetes": "kubernetes",
}
"""Folders of package archives, by distribution or release of the hosts."""
HELM = "helm"


def place(name: str, system: str) -> str:
    """The folder of an archive for a system such as "debian-12"."""
    return PLACES[name].format(id=system.partition("-")[0], release=system)


def address(site: Site, facts: HostFacts | None, name: str) -> str:
    """The address of an archive in the site's bundle; "" without a bundle, for other systems, and before the host's first facts."""
    bundle = site.repositories.bundle
    if bundle is None or facts is None or facts.os.id not in SYSTEMS:
        return ""
    return f"{bundle.rstrip('/')}/{place(name, facts.os.release)}"


def helm_path(url: str) -> str:
    """Where the archive of Helm's program lies in a bundle."""
    return f"{HELM}/{url.rpartition('/')[2]}"
