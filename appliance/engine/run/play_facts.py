"""A host's system in the form of Ansible's facts, so that a play need not read again what a proof has just read."""

import time
from dataclasses import dataclass

from appliance.models.facts_host import Os

AGE = 600.0
"""Seconds after which a host is asked again: it may have rebooted with another kernel."""
NAMES = {
    "debian": ("Debian", "Debian"),
    "ubuntu": ("Ubuntu", "Debian"),
    "rhel": ("RedHat", "RedHat"),
    "rocky": ("Rocky", "RedHat"),
    "almalinux": ("AlmaLinux", "RedHat"),
    "ol": ("OracleLinux", "RedHat"),
    "centos": ("CentOS", "RedHat"),
}
"""By the ID of os-release(5): distribution and family (ansible-core, module_utils/facts/system/distribution.py)."""


@dataclass(frozen=True)
class System:
    """What a host reported of its system; ``read`` is of time.monotonic."""

    os: Os
    read: float

    def facts(self) -> dict[str, str]:
        """Return the facts that roles read; empty if Ansible has to ask the host."""
        names = NAMES.get(self.os.id)
        if names is None or time.monotonic() - self.read > AGE:
            return {}
        return {
            "distribution": names[0],
            "os_family": names[1],
            "distribution_version": self.os.version_id,
            "distribution_major_version": self.os.version_id.partition(".")[0],
            "distribution_release": self.os.codename,
            "kernel": self.os.kernel,
        }
