"""The self-test of the gates, on a site with a profile or on a synthetic one. Contacts no host."""

import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.actions.profiles.limit_bounds import check_ids
from appliance.actions.sites.opening import Target
from appliance.adapters.process import Completed
from appliance.checks.check import View
from appliance.config import data
from appliance.config.load import load_profile, load_site
from appliance.config.secrets import Redactor
from appliance.engine.accept.acceptance import requirements
from appliance.engine.accept.gate_self_test import EvidenceTrial, self_test
from appliance.engine.session import Session
from appliance.errors import ConnectionFailed
from appliance.journal import Journal
from appliance.models.events import Event
from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.site import Role, Site

HOSTS = 4


@dataclass(frozen=True)
class Tested:
    """What was tested, and the gates that could not be: those that no evidence closes, with the reason."""

    site: str
    profile: str
    tried: tuple[EvidenceTrial, ...]
    blocked: dict[str, str]

    @property
    def good(self) -> bool:
        """Whether a gate was tested, each gate passed genuine evidence, and none passed forged evidence."""
        return bool(self.tried) and all(one.as_it_should for one in self.tried)


def try_gates(target: Target) -> Tested:
    """Tests every gate of the site, or of a synthetic site with four GPU hosts of the profile. Raises ConfigError."""
    if target.inventory is not None:
        loaded = load_site(target.inventory, target.profile, check_ids=check_ids())
        site, profile = loaded.site, loaded.profile
    else:
        profile = load_profile(target.profile or "hpc", check_ids())
        site = _invented_site()
    # Marks of simulated hardware would refuse all evidence before the forgery is examined.
    site = site.model_copy(update={"simulated": ()})
    tried: dict[tuple[str, str], EvidenceTrial] = {}
    blocked: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder)) as journal:
        session = _session(site, profile, Path(folder), journal)
        for number in range(max(len(p.hardware.gpu.models) for p in site.profiles(profile))):
            facts = {
                host.name: _facts(
                    host.name, host.roles, site.profile_of(host.name, profile), number
                )
                for host in site.hosts
            }
            blocked |= {
                w.id: w.blocked for w in requirements(View(profile, site, facts)) if w.blocked
            }
            for one in self_test(session, facts):
                known = tried.get((one.gate, one.case))
                if known is None or known.as_it_should:
                    tried[one.gate, one.case] = one
    seen = {one.gate for one in tried.values()}
    left = {gate: why for gate, why in blocked.items() if gate not in seen}
    return Tested(site.name, profile.name, tuple(tried.values()), left)


def _invented_site() -> Site:
    gpus = [
        {"name": f"gpu-{n}", "roles": ["gpu"], "address": f"10.0.0.{10 + n}"}
        for n in range(1, HOSTS + 1)
    ]
    head = {"name": "head", "roles": ["control", "storage", "login"], "address": "10.0.0.10"}
    return Site.model_validate(
        {
            "version": 1,
            "name": "self-test",
            "networks": {"management": {"cidr": "10.0.0.0/24"}},
            "hosts": [head, *gpus],
        }
    )


def _facts(host: str, roles: Sequence[Role], profile: Profile, number: int) -> HostFacts:
    """The smallest answer of a host, with GPUs of a model of its class, and its ports if the class has any."""
    models = profile.hardware.gpu.models
    model = models[number % len(models)] if models else ""
    gpus: dict[str, Any] = {
        "driver": "1",
        "nvml": "1",
        "devices": [
            {
                "index": index,
                "uuid": f"GPU-{host}-{index}",
                "name": model,
                "bus_id": f"0000:{index + 1:02x}:00.0",
                "memory": profile.hardware.gpu.memory_gib << 30,
            }
            for index in range(profile.hardware.gpu.count)
        ],
    }
    told: dict[str, Any] = {
        "version": 1,
        "host": host,
        "taken": "2026-01-01T00:00:00Z",
        "cpu_seconds": 0.1,
        "user": "root",
        "os": {
            **{"id": "debian", "version_id": "12", "kernel": "6.1"},
            **{"boot_id": host, "hostname": host, "cgroup": "v2"},
        },
        "cpu": {"model": "x", "sockets": 2, "cores": 96, "threads": 192},
        "memory": {"total": 1 << 40, "available": 1 << 39},
        "clock": {"time": 1.0},
    }
    if Role.GPU in roles:
        told |= {"gpus": gpus, "ports": _ports(profile)}
    return HostFacts.model_validate(told)


def _ports(profile: Profile) -> list[dict[str, Any]]:
    """As many active ports as the class has: the gates of each port need them."""
    fabric = profile.hardware.fabric
    return [
        {
            **{"device": f"mlx5_{index}", "port": 1, "state": "4: ACTIVE", "physical": "5: LinkUp"},
            **{"rate": fabric.rate_gbps, "link_layer": fabric.link_layer},
        }
        for index in range(fabric.ports)
    ]


def _session(site: Site, profile: Profile, folder: Path, journal: Journal) -> Session:
    return Session(
        run="self-test",
        verb="validate",
        site=site,
        profile=profile,
        folder=folder,
        data=data.root(),
        runs=folder,
        secrets={},
        remote=_Nobody(),
        journal=journal,
        observer=_Nobody(),
        redact=Redactor(()),
        cancelled=threading.Event(),
    )


class _Nobody:
    """Hosts that do not exist, and an observer that ignores everything."""

    def handle(self, event: Event) -> None:
        """See Observer."""

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        """See Remote."""
        raise ConnectionFailed(f"the self-test contacts no host ({argv[0]})", "", host)

    def reach(self, host: str) -> None:
        """See Reachable."""
        raise ConnectionFailed("the self-test contacts no host", "", host)

    def leave(self, host: str) -> None:
        """See Reachable."""
