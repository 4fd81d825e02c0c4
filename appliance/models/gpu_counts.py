"""The number of GPUs of a host. Its class gives a maximum: a host with fewer declares that in the site."""

from collections.abc import Iterable

from appliance.models.profile import Profile
from appliance.models.site import Host, Role, Site


def gpu_count(profile: Profile, host: Host) -> int:
    """GPUs of this GPU host, whose class is ``profile``: the site's number, else the maximum of its class."""
    return host.gpus or profile.hardware.gpu.count


def gpu_total(profile: Profile, site: Site, hosts: Iterable[Host]) -> int:
    """GPUs of all these GPU hosts."""
    return sum(gpu_count(site.profile_of(host.name, profile), host) for host in hosts)


def _counts(profile: Profile, site: Site) -> list[int]:
    hosts = site.with_role(Role.GPU)
    return [gpu_count(site.profile_of(host.name, profile), host) for host in hosts]


def gpu_least(profile: Profile, site: Site) -> int:
    """The number that every GPU host of the site has: a job can request as many of each."""
    counts = _counts(profile, site)
    return min(counts, default=profile.hardware.gpu.count)


def gpu_most(profile: Profile, site: Site) -> int:
    """The largest number on a GPU host of the site: one pod can get as many."""
    counts = _counts(profile, site)
    return max(counts, default=profile.hardware.gpu.count)
