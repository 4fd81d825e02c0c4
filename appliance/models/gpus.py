"""How many GPUs a host has. Its class says "up to": a host that has fewer says so in the site."""

from collections.abc import Iterable

from appliance.models.profile import Profile
from appliance.models.site import Host, Role, Site


def gpu_count(profile: Profile, host: Host) -> int:
    """GPUs of this GPU host: the site's word, else as many as its class has at most."""
    return host.gpus or profile.hardware.gpu.count


def gpu_total(profile: Profile, hosts: Iterable[Host]) -> int:
    """GPUs of all these GPU hosts."""
    return sum(gpu_count(profile, host) for host in hosts)


def gpu_least(profile: Profile, site: Site) -> int:
    """What every GPU host of the site has: as many as a job may ask of each."""
    counts = (gpu_count(profile, host) for host in site.with_role(Role.GPU))
    return min(counts, default=profile.hardware.gpu.count)


def gpu_most(profile: Profile, site: Site) -> int:
    """What some GPU host of the site has: as many as one pod can get."""
    counts = (gpu_count(profile, host) for host in site.with_role(Role.GPU))
    return max(counts, default=profile.hardware.gpu.count)
