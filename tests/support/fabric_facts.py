"""Fabric facts, as several test modules use it."""

from typing import Any

from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.result import CheckResult
from appliance.models.site import Site
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

HOSTS = ("head", "gpu-1", "gpu-2")


PORTS = 4


def profile(link_layer: str = "InfiniBand", ports: int = PORTS) -> Profile:
    """A class of four HDR ports."""
    return profile_of(fabric={"link_layer": link_layer, "ports": ports, "rate_gbps": 200})


def site(subnet_manager: str = "opensm") -> Site:
    """A head host and two GPU hosts."""
    return site_of("head", "gpu-1", "gpu-2", fabric={"subnet_manager": subnet_manager})


def guid(host: str, index: int) -> str:
    """As the kernel writes it."""
    return f"0c42:a103:000{HOSTS.index(host)}:0{index}00"


def port(host: str, index: int, **changes: Any) -> dict[str, Any]:
    """A good port."""
    return {
        "device": f"mlx5_{index}",
        "port": 1,
        "state": "4: ACTIVE",
        "physical": "5: LinkUp",
        "rate": 200.0,
        "link_layer": "InfiniBand",
        "guid": guid(host, index),
        "counters": {"symbol_error": 0, "link_downed": 0, "port_rcv_data": 12345},
        **changes,
    }


def facts(host: str, **changes: Any) -> HostFacts:
    """A host with four good ports; a head host that asked the fabric."""
    return facts_of(
        host,
        **{
            "ports": [port(host, index) for index in range(1 if host == "head" else PORTS)],
            **(asked() if host == "head" else {}),
            **changes,
        },
    )


def asked(without: tuple[str, int] | None = None) -> dict[str, Any]:
    """What a control host learns from the fabric, perhaps without one adapter."""
    found = [(h, i) for h in HOSTS[1:] for i in range(PORTS) if (h, i) != without]
    return {
        "subnet_manager": {"state": "SMINFO_MASTER", "guid": "0x0c42a10300000000", "priority": 14},
        "topology": {
            "hcas": [
                {"guid": f"0x{guid(h, i).replace(':', '')}", "description": "unnamed", "ports": 1}
                for h, i in found
            ],
            "switches": [{"guid": "0x1", "description": "leaf", "ports": 40}],
        },
    }


def view(*changed: HostFacts, site_: Site | None = None, profile_: Profile | None = None) -> View:
    """The good fabric, with some hosts' facts replaced."""
    known = {host: facts(host) for host in HOSTS} | {f.host: f for f in changed}
    return View(profile_ or profile(), site_ or site(), known)


def judge(check_id: str, seen: View, host: str = "gpu-1") -> list[CheckResult]:
    """The results of one check."""
    return said_by(check_id, seen, host)


def one(check_id: str, seen: View, host: str = "gpu-1") -> CheckResult:
    """The only result of one check."""
    (result,) = judge(check_id, seen, host)
    return result
