"""Checks of management controllers: each with a good machine, with the fault it looks for, and without the measurement."""

from collections.abc import Callable
from typing import Any

import pytest

from appliance.bmc.checks import CHECKS
from appliance.checks.check import View
from appliance.models.bmc import BmcFacts
from appliance.models.result import CheckResult, Status
from appliance.models.site import Host, Site
from tests.support.profiles import profile_of

MAC = "52:54:00:00:00:11"
GIB = 1 << 30
ONE = {"condition": "OK"}
SERVER = {"model": "DGX*", "bios": {"NumaNodesPerSocket": "NPS4"}, "firmware": {"BIOS": "1.21"}}
GOOD: dict[str, Any] = {
    "host": "gpu-1",
    "taken": "2026-11-24T00:00:00+00:00",
    "seconds": 1.0,
    "machine": {
        "model": "DGXA100",
        "serial": "ABC1",
        "uuid": "1-1",
        "bios": "1.21",
        "power": "On",
        "condition": "OK",
    },
    "bios": {"NumaNodesPerSocket": "NPS4"},
    "processors": [{"name": f"CPU {i}", "cores": 64, **ONE} for i in range(2)],
    "modules": [{"name": f"DIMM {i}", "capacity_mib": 65536, **ONE} for i in range(16)],
    "devices": [
        *({"name": f"GPU {i}", "kind": "gpu", "lanes": 16, **ONE} for i in range(8)),
        *({"name": f"HCA {i}", "kind": "hca", **ONE} for i in range(8)),
    ],
    "drives": [{"name": "NVMe 0", "capacity": 4000 * GIB, "failing": False, **ONE}],
    "interfaces": [{"name": "1", "mac": MAC}],
    "supplies": [{"name": f"PSU {i}", "present": True, **ONE} for i in range(2)],
    "sensors": [{"name": "Fan 1", "reading": 30.0, **ONE}],
}


def judged(check_id: str, facts: dict[str, Any], *others: dict[str, Any]) -> list[CheckResult]:
    profile = profile_of(
        fabric={"link_layer": "InfiniBand", "ports": 8, "rate_gbps": 200},
        host={"system_disk_gib": 400, "scratch_disk_gib": 3500},
        servers=[SERVER],
    )
    hosts = [
        Host.model_validate(
            {"name": n, "roles": ["gpu"], "address": "10.0.0.11", "mac": MAC, "serial": "abc1"}
        )
        for n in ("gpu-1", "gpu-2")
    ]
    found = {f["host"]: BmcFacts.model_validate(f) for f in (facts, *others)}
    site = Site(version=1, name="t", hosts=tuple(hosts), networks={})
    view = View(profile, site, {}, controllers=found)
    (check,) = (c for c in CHECKS if c.id == check_id)
    return list(check.results(view, hosts[0], found["gpu-1"]))


def worst(results: list[CheckResult]) -> CheckResult:
    order = [Status.PASS, Status.NOT_ASSESSED, Status.WARN, Status.FAIL]
    return max(results, key=lambda r: order.index(r.status))


def changed(**fields: Any) -> dict[str, Any]:
    return GOOD | fields


def part(area: str, **fields: Any) -> dict[str, Any]:
    first, *rest = GOOD[area]
    return changed(**{area: [first | fields, *rest]})


def machine(**fields: Any) -> dict[str, Any]:
    return changed(machine=GOOD["machine"] | fields)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_a_sound_machine_passes(check: Any) -> None:
    results = judged(check.id, GOOD)
    assert results
    assert {r.status for r in results} == {Status.PASS}


FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "a socket less": (
        changed(processors=GOOD["processors"][:1]),
        "bmc.processors",
        "found 1 socket, expected 2",
    ),
    "fewer cores": (part("processors", cores=16), "bmc.processors", "found 80 cores, expected 96"),
    "an ill processor": (
        part("processors", condition="Critical"),
        "bmc.processors",
        "Critical for CPU 0",
    ),
    "a module less": (
        changed(modules=GOOD["modules"][:14]),
        "bmc.memory",
        "found 896 GiB, expected 960",
    ),
    "an ill module": (part("modules", condition="Critical"), "bmc.memory", "Critical for DIMM 0"),
    "a GPU less": (changed(devices=GOOD["devices"][1:]), "bmc.gpus", "found 7 GPUs, expected 8"),
    "half the lanes": (part("devices", lanes=8), "bmc.gpus", "runs on 8 PCIe lanes, expected 16"),
    "an ill GPU": (part("devices", condition="Critical"), "bmc.gpus", "Critical for GPU 0"),
    "few HCAs": (
        changed(devices=GOOD["devices"][:11]),
        "bmc.hcas",
        "found 3 HCAs, expected at least 4",
    ),
    "a small drive": (part("drives", capacity=GIB), "bmc.drives", "found 1 GiB, expected 3900"),
    "a failing drive": (part("drives", failing=True), "bmc.drives", "predicts its failure"),
    "an ill supply": (part("supplies", condition="Critical"), "bmc.supplies", "Critical for PSU 0"),
    "another setting": (
        changed(bios={"NumaNodesPerSocket": "NPS1"}),
        "bmc.bios",
        "is NPS1, expected NPS4",
    ),
    "an old firmware": (machine(bios="1.9"), "bmc.firmware", "BIOS is 1.9, older than 1.21"),
    "a still fan": (part("sensors", condition="Critical"), "bmc.sensors", "Critical for Fan 1"),
    "an ill machine": (
        machine(condition="Critical"),
        "bmc.health",
        "reports Critical for the whole machine",
    ),
    "another MAC": (
        part("interfaces", mac="52:54:00:00:00:99"),
        "bmc.mac",
        f"no port has the MAC address {MAC}",
    ),
    "another machine": (
        machine(serial="ABC2"),
        "bmc.serial",
        "serial number ABC2, expected abc1",
    ),
    "a sold password": (
        changed(default_password=True),
        "bmc.password",
        "the vendor's default password",
    ),
    "an expired password": (
        changed(must_change_password=True),
        "bmc.password",
        "requires a new password",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told(name: str) -> None:
    facts, check, words = FAULTS[name]
    found = worst(judged(check, facts))
    assert found.status is Status.FAIL
    assert words in found.cause
    assert found.fix


DOUBTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "an empty bay": (part("supplies", present=False, condition=""), "bmc.supplies", "is empty"),
    "a machine with a warning": (machine(condition="Warning"), "bmc.health", "reports Warning"),
    "an open event": (
        changed(events=[{"created": "2026-11-01", "severity": "Critical", "message": "AC lost"}]),
        "bmc.events",
        "2026-11-01: AC lost",
    ),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_a_doubt_is_a_warning(name: str) -> None:
    facts, check, words = DOUBTS[name]
    found = worst(judged(check, facts))
    assert found.status is Status.WARN
    assert words in found.cause


def less(area: str, why: str = "answers 404", **rest: Any) -> dict[str, Any]:
    return changed(unread={area: why}, **rest)


def half(area: str) -> list[Any]:
    found: list[Any] = GOOD[area][: len(GOOD[area]) // 2]
    return found


MISSING: dict[str, tuple[dict[str, Any], str]] = {
    "processors not read": (less("processors", processors=[]), "bmc.processors"),
    "processors read in part": (
        less("processors", processors=half("processors")),
        "bmc.processors",
    ),
    "memory not read": (less("memory", modules=[]), "bmc.memory"),
    "a module without a size": (part("modules", capacity_mib=None), "bmc.memory"),
    "devices not read": (less("devices", devices=[]), "bmc.gpus"),
    "no GPU is ever listed": (changed(devices=GOOD["devices"][8:]), "bmc.gpus"),
    "GPUs read in part": (less("devices", devices=half("devices")[:3]), "bmc.gpus"),
    "a GPU less while off": (machine(power="Off") | {"devices": GOOD["devices"][1:]}, "bmc.gpus"),
    "HCAs never listed": (changed(devices=GOOD["devices"][:8]), "bmc.hcas"),
    "drives not read": (less("drives", drives=[]), "bmc.drives"),
    "a drive without a size": (part("drives", capacity=None), "bmc.drives"),
    "supplies not read": (less("supplies", supplies=[]), "bmc.supplies"),
    "a supply without a state": (part("supplies", condition=""), "bmc.supplies"),
    "sensors not read": (less("sensors", sensors=[]), "bmc.sensors"),
    "sensors without a state": (part("sensors", condition=""), "bmc.sensors"),
    "no overall health": (machine(condition=""), "bmc.health"),
    "no power state": (machine(power=""), "bmc.power"),
    "between on and off": (machine(power="PoweringOn"), "bmc.power"),
    "no MAC at all": (changed(interfaces=[]), "bmc.mac"),
    "ports read in part": (less("interfaces", interfaces=[{"name": "1", "mac": "0"}]), "bmc.mac"),
    "no serial number": (machine(serial="Default string"), "bmc.serial"),
    "nothing to know it by": (machine(serial="", uuid="") | {"interfaces": []}, "bmc.unique"),
    "event log not read": (less("events"), "bmc.events"),
}


@pytest.mark.parametrize("name", MISSING)
def test_what_is_not_known_is_not_good(name: str) -> None:
    facts, check = MISSING[name]
    found = worst(judged(check, facts))
    assert found.status is Status.NOT_ASSESSED
    assert found.cause


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"machine": {"serial": "ABC1"}, "interfaces": []}, "serial number ABC1"),
        ({"machine": {"uuid": "1-1"}, "interfaces": []}, "UUID 1-1"),
        ({"machine": {}}, f"MAC address {MAC}"),
    ],
)
def test_one_machine_under_two_names_is_told(fields: dict[str, Any], words: str) -> None:
    (found,) = judged("bmc.unique", GOOD, changed(host="gpu-2", **fields))
    assert found.status is Status.FAIL
    assert found.cause == f"{words} is also that of gpu-2"


@pytest.mark.parametrize("serial", ["To be filled by O.E.M.", "Default string", "0"])
def test_a_number_nobody_gave_makes_no_twins(serial: str) -> None:
    alone: Callable[[str], dict[str, Any]] = lambda host: changed(  # noqa: E731
        host=host,
        machine={"serial": serial, "uuid": "0" * 32},
        interfaces=[{"name": "1", "mac": host}],
    )
    (found,) = judged("bmc.unique", alone("gpu-1"), alone("gpu-2"))
    assert found.status is Status.PASS
