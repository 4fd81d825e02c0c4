"""Errors of memory, PCIe and drives: what fails, what warns, by which reading, and what nobody could know."""

from dataclasses import replace
from typing import Any

import pytest

from appliance.actions.kubernetes.node_conditions import CHECKS as TOLD
from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from appliance.watch import rules
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

FAIL, WARN, PASS, UNKNOWN = Status.FAIL, Status.WARN, Status.PASS, Status.NOT_ASSESSED
SITE = site_of("head", "gpu-1")
MEMORY, PCIE, NVME = "base.memory_errors", "base.pcie_errors", "base.nvme"
DAY = 86400.0


def host(minute: int = 30, **changes: Any) -> HostFacts:
    return facts_of("gpu-1", taken=f"2026-11-26T12:{minute:02}:00Z", **changes)


def judge(
    check: str, now: HostFacts, before: HostFacts | None = None, site: Site = SITE
) -> list[CheckResult]:
    seen = View(profile_of(), site, {"gpu-1": now})
    return said_by(check, replace(seen, before={"gpu-1": before} if before else {}), "gpu-1")


def one(
    check: str, now: HostFacts, before: HostFacts | None = None, site: Site = SITE
) -> CheckResult:
    (result,) = judge(check, now, before, site)
    return result


def limited(check: str, value: float) -> Site:
    return SITE.model_copy(update={"limits": {check: Limit(value=value, source="our own")}})


def memory(corrected: int = 0, uncorrected: int = 0, since: float = DAY, **more: Any) -> Any:
    modules = [{"label": "DIMM_A1", "corrected": corrected, "uncorrected": uncorrected}]
    return {
        "controllers": 2,
        "corrected": corrected,
        "uncorrected": uncorrected,
        "since_s": since,
        "modules": modules,
        **more,
    }


def test_an_uncorrected_error_fails_and_names_the_module() -> None:
    result = one(MEMORY, host(memory_errors=memory(uncorrected=1)))
    assert (result.status, result.target, result.value) == (FAIL, "gpu-1/DIMM_A1", 1)
    assert "dmidecode" in result.fix


@pytest.mark.parametrize(
    ("corrected", "days", "status"),
    [(10, 1.0, PASS), (11, 1.0, WARN), (11, 0.1, WARN), (40, 4.0, PASS), (41, 4.0, WARN)],
)
def test_corrected_errors_warn_where_they_come_oftener_than_of_a_sound_module(
    corrected: int, days: float, status: Status
) -> None:
    result = one(MEMORY, host(memory_errors=memory(corrected, since=days * DAY)))
    assert result.status is status
    if status is WARN:
        assert result.target == "gpu-1/DIMM_A1"
        assert "mcelog" in result.limit_source


def test_a_module_that_errs_since_the_last_look_is_not_hidden_by_a_long_uptime() -> None:
    then = host(0, memory_errors=memory(100, since=90 * DAY))
    now = host(30, memory_errors=memory(111, since=90 * DAY))
    result = one(MEMORY, now, then)
    assert (result.status, result.value) == (WARN, 11)
    assert "corrected in 30 min" in result.cause
    assert one(MEMORY, now, host(0, memory_errors=memory(101))).status is PASS
    assert one(MEMORY, now).status is PASS


@pytest.mark.parametrize(
    "then", [host(0), host(0, os={"boot_id": "other"}, memory_errors=memory(0))]
)
def test_a_reading_that_cannot_be_compared_with_makes_nobody_ill(then: HostFacts) -> None:
    assert one(MEMORY, host(memory_errors=memory(500, since=90 * DAY)), then).status is PASS


def test_errors_that_no_module_bears_are_told_of_the_host() -> None:
    now = host(memory_errors=memory(uncorrected=3, modules=[]))
    assert (one(MEMORY, now).target, one(MEMORY, now).status) == ("gpu-1", FAIL)
    assert "a module unknown to the driver" in one(MEMORY, now).cause


def test_two_modules_are_two_findings() -> None:
    bad = [
        {"label": "A1", "corrected": 0, "uncorrected": 1},
        {"label": "B2", "corrected": 50, "uncorrected": 0},
    ]
    now = host(memory_errors=memory(50, 1, modules=bad))
    told = [(r.target, r.status) for r in judge(MEMORY, now)]
    assert told == [("gpu-1/A1", FAIL), ("gpu-1/B2", WARN)]


def test_the_sites_own_limit_counts() -> None:
    now = host(memory_errors=memory(50))
    assert one(MEMORY, now, site=limited(MEMORY, 60)).status is PASS
    told = one(MEMORY, host(memory_errors=memory(61)), site=limited(MEMORY, 60))
    assert (told.status, told.limit, told.limit_source) == (WARN, 60, "our own")


def test_without_a_driver_nothing_is_known_and_what_to_load_is_said() -> None:
    """Firmware that keeps errors to itself is no fault of a host."""
    none = {"controllers": 0, "corrected": 0, "uncorrected": 0}
    result = one(MEMORY, host(memory_errors=none))
    assert (result.status, result.required) == (UNKNOWN, False)
    assert "i10nm_edac" in result.fix
    blind = {"devices": 0, "uncounted": ["0000:17:00.0"]}
    result = one(PCIE, host(pcie_errors=blind))
    assert (result.status, result.required) == (UNKNOWN, False)
    assert "AER" in result.cause


@pytest.mark.parametrize("check", [MEMORY, PCIE, NVME])
def test_facts_of_before_these_were_read_are_never_good(check: str) -> None:
    assert (one(check, host()).status, one(check, host()).required) == (UNKNOWN, True)
    lent = one(check, host(os={"container": "systemd-nspawn"}))
    assert (lent.status, lent.required) == (UNKNOWN, False)
    assert lent.cause == "container host shares its machine's hardware"


def link(at: str = "0000:17:00.0", **counts: int) -> dict[str, Any]:
    none = {"fatal": 0, "nonfatal": 0, "correctable": 0}
    return {"at": at, "device": "mlx5_0", **none, **counts}


def bus(*links: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"devices": 20, "errors": links, **more}


def test_a_fatal_error_fails_at_the_first_look() -> None:
    result = one(PCIE, host(pcie_errors=bus(link(fatal=1))))
    assert (result.status, result.target) == (FAIL, "gpu-1/0000:17:00.0")
    assert "/sys/bus/pci/devices/0000:17:00.0/aer_dev_*" in result.fix


@pytest.mark.parametrize(
    ("then", "now", "status"),
    [
        ([], [link(nonfatal=1)], WARN),
        ([link(nonfatal=1)], [link(nonfatal=1)], PASS),
        ([link(nonfatal=7)], [link(nonfatal=2)], WARN),
        ([link(correctable=100)], [link(correctable=340)], PASS),
        ([link(correctable=100)], [link(correctable=341)], WARN),
        ([], [link(correctable=240)], PASS),
        ([], [link(correctable=241)], WARN),
    ],
)
def test_other_errors_are_judged_by_their_growth_in_half_an_hour(
    then: list[Any], now: list[Any], status: Status
) -> None:
    before, after = host(0, pcie_errors=bus(*then)), host(30, pcie_errors=bus(*now))
    assert one(PCIE, after, before).status is status


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (None, "needs two readings"),
        (host(30, pcie_errors=bus()), "less than a minute old"),
        (host(0, pcie_errors=bus(), os={"boot_id": "other"}), "rebooted since"),
        (host(0), "the previous reading has none"),
    ],
)
def test_counters_above_zero_without_a_reading_before_are_not_good(
    before: HostFacts | None, why: str
) -> None:
    result = one(PCIE, host(pcie_errors=bus(link(correctable=9))), before)
    assert (result.status, result.required, result.value) == (UNKNOWN, False, 9)
    assert why in result.cause
    assert one(PCIE, host(pcie_errors=bus()), before).status is PASS


def test_one_device_of_two_is_named_and_a_fatal_error_hides_no_other() -> None:
    sick = bus(link(fatal=1, correctable=1), link("0000:18:00.0", nonfatal=2))
    told = judge(PCIE, host(30, pcie_errors=sick), host(0, pcie_errors=bus()))
    assert [(r.target, r.status) for r in told] == [
        ("gpu-1/0000:17:00.0", FAIL),
        ("gpu-1/0000:18:00.0", WARN),
    ]
    calm = bus(link(fatal=1, correctable=1))
    (told_alone,) = judge(PCIE, host(30, pcie_errors=calm), host(0, pcie_errors=calm))
    assert told_alone.status is FAIL


def test_a_device_that_nobody_counts_is_not_called_good() -> None:
    result = one(PCIE, host(pcie_errors=bus(uncounted=["0000:18:00.0"])))
    assert (result.status, result.target) == (UNKNOWN, "gpu-1/0000:18:00.0")
    quiet = bus(link(correctable=3), uncounted=["0000:18:00.0"])
    result = one(PCIE, host(30, pcie_errors=quiet), host(0, pcie_errors=quiet))
    assert result.status is UNKNOWN


def test_a_host_without_such_devices_or_drives_is_not_judged() -> None:
    assert judge(PCIE, host(pcie_errors={"devices": 0})) == []
    assert judge(NVME, host(nvme={"drives": 0})) == []


def test_the_sites_own_limit_of_corrected_errors_counts() -> None:
    before, after = host(0, pcie_errors=bus()), host(30, pcie_errors=bus(link(correctable=3000)))
    assert one(PCIE, after, before, limited(PCIE, 100)).status is PASS
    assert one(PCIE, after, before, limited(PCIE, 99)).limit_source == "our own, a minute"


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        ({"used": 90}, WARN, "90 % of its rated life"),
        ({"used": 100}, WARN, "100 % of its rated life"),
        (
            {"warning": 0x01, "spare": 4, "spare_least": 10},
            WARN,
            "(4 %) are below the drive's threshold (10 %)",
        ),
        ({"spare": 4, "spare_least": 10}, WARN, "(4 %) are below the drive's threshold (10 %)"),
        ({"warning": 0x40}, WARN, "unknown warning (0x40)"),
        ({"warning": 0x10}, WARN, "backup of volatile"),
        ({"warning": 0x04}, FAIL, "degraded reliability"),
        ({"warning": 0x0A, "used": 140}, FAIL, "the drive is read-only"),
        ({"warning": 0x02}, WARN, "temperature"),
        ({"media_errors": 4}, WARN, "4 unrecoverable data errors in its life"),
        ({"dead": True, "used": 0}, FAIL, "disabled the drive"),
    ],
)
def test_what_a_drive_says_of_itself(said: dict[str, Any], status: Status, words: str) -> None:
    found = {"drives": 2, "most_used": 9, "notable": [{"name": "nvme1", "used": 60, **said}]}
    result = one(NVME, host(nvme=found))
    assert (result.status, result.target) == (status, "gpu-1/nvme1")
    assert words in result.cause
    assert "nvme1" in result.fix


def test_a_drive_that_is_half_used_up_is_good_unless_the_site_says_otherwise() -> None:
    found = {"drives": 2, "most_used": 60, "notable": [{"name": "nvme1", "used": 60}]}
    result = one(NVME, host(nvme=found))
    assert (result.status, result.value, result.evidence) == (PASS, 60, "2 drives")
    assert one(NVME, host(nvme=found), site=limited(NVME, 71)).status is PASS
    assert one(NVME, host(nvme=found), site=limited(NVME, 70)).status is WARN


def test_a_drive_that_did_not_answer_is_not_good() -> None:
    found = {"drives": 2, "most_used": 6, "unasked": ["nvme1"]}
    errors = {"nvme": "nvme1: Input/output error"}
    result = one(NVME, host(nvme=found, errors=errors))
    assert (result.status, result.target) == (UNKNOWN, "gpu-1/nvme1")
    assert (result.cause, result.required) == ("nvme1: Input/output error", True)


def test_what_fails_takes_a_host_out_of_slurm_and_of_kubernetes_alike() -> None:
    """Kubernetes is told what fails, Slurm asks the host's own watch: both name the same hosts."""
    nothing = {
        "gpus": 0,
        "ports": 0,
        "xids": "",
        "xid_hours": 1,
        "devices": [],
        "fabric_manager": False,
    }
    ill: list[dict[str, Any]] = [
        {"memory_errors": memory(uncorrected=1)},
        {"memory_errors": memory(corrected=900)},
        {"pcie_errors": bus(link(fatal=1))},
        {"pcie_errors": bus(link(nonfatal=5, correctable=9000))},
        *(
            {"nvme": {"drives": 1, "notable": [{"name": "nvme0", "used": 140, "warning": 1 << n}]}}
            for n in range(6)
        ),
        {"nvme": {"drives": 1, "notable": [{"name": "nvme0", "used": 0, "dead": True}]}},
    ]
    quiet = host(0, memory_errors=memory(), pcie_errors=bus(), nvme={"drives": 1})
    drained = 0
    for change in ill:
        now = host(30, **change)
        checks = (
            [PCIE] if "pcie_errors" in change else [MEMORY] if "memory_errors" in change else [NVME]
        )
        found = {r.id for r in judge(checks[0], now, quiet) if r.status is FAIL}
        said = {name: now.model_dump(mode="json")[name] for name in change}
        assert {cause.check for cause in rules.causes(said, nothing)} == found
        assert found <= set(TOLD)
        drained += bool(found)
    assert drained == 5
