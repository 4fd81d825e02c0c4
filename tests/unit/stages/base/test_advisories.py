"""Versions against bulletins: each source by its own numbers, and unknown is never good."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from appliance.stages.base.advisories import advisories, is_fixed, newest
from appliance.stages.base.site import Advisory
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

CHECK = "base.advisories"
WARN, PASS, UNKNOWN = Status.WARN, Status.PASS, Status.NOT_ASSESSED
SITE = site_of("head", "gpu-1")
DEBIAN = {"id": "debian", "version_id": "12", "container": "", "kernel": "6.1.0-60-amd64"}


def host(day: str = "2026-11-26", os: dict[str, str] | None = None, **changes: Any) -> HostFacts:
    system = {**DEBIAN, **(os or {})}
    found = facts_of("gpu-1", os=system, **changes)
    return found.model_copy(update={"taken": f"{day}T12:00:00Z"})


def judge(now: HostFacts, site: Site = SITE) -> dict[str, CheckResult]:
    told = said_by(CHECK, View(profile_of(), site, {"gpu-1": now}), "gpu-1")
    return {result.target.removeprefix("gpu-1/"): result for result in told}


def with_rows(*rows: Advisory) -> Site:
    return SITE.model_copy(update={"base": SITE.base.model_copy(update={"advisories": rows})})


def driver(version: str) -> dict[str, Any]:
    return {"gpus": {"driver": version, "nvml": "", "devices": []}}


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("580.178.04", PASS),
        ("580.95.05", WARN),
        ("535.309.01", PASS),
        ("535.261.03", WARN),
        ("550.163.01", WARN),
        ("615.71.09", PASS),
        ("620.10.01", PASS),
        ("unknown", UNKNOWN),
    ],
)
def test_a_driver_is_judged_within_its_branch_and_a_branch_nobody_mends_is_behind(
    version: str, status: Status
) -> None:
    told = judge(host(**driver(version)))
    assert ("nvidia-driver" in told) is (status is not PASS)
    assert told["gpu-1" if status is PASS else "nvidia-driver"].status is status


def test_a_driver_that_is_behind_names_the_release_of_its_own_branch() -> None:
    told = judge(host(**driver("580.95.05")))["nvidia-driver"]
    assert "580.95.05 has known vulnerabilities" in told.cause
    assert 'software.driver_branch: "580.178.04"' in told.fix
    assert "5861" in told.limit_source


@pytest.mark.parametrize(
    ("system", "version", "status"),
    [
        ("12", "1.1.5+ds1-1+deb12u1", PASS),
        ("12", "1.1.5+ds1-1+deb12u2", PASS),
        ("12", "1.1.5+ds1-1", WARN),
        ("12", "1.1.4+ds1-1", WARN),
        # Newer by its number, and of nobody knows where.
        ("12", "1.1.12+ds1-2~bpo12+1", UNKNOWN),
        ("13", "1.1.15+ds1-2+deb13u1", PASS),
        ("13", "1.1.5+ds1-1+deb12u1", WARN),
    ],
)
def test_a_package_of_the_distribution_is_judged_by_its_release_alone(
    system: str, version: str, status: Status
) -> None:
    kernel = {"12": "6.1.0-60-amd64", "13": "6.12.120+deb13-amd64"}[system]
    now = host(os={"version_id": system, "kernel": kernel}, packages={"runc": version})
    told = judge(now)
    assert ("runc" in told) is (status is not PASS)
    assert told["runc" if "runc" in told else "gpu-1"].status is status


@pytest.mark.parametrize(
    ("os", "packages"),
    [
        (
            {"id": "rocky", "version_id": "9.6", "kernel": "5.14.0-570.el9.x86_64"},
            {"runc": "4:1.2.5-2.el9"},
        ),
        (
            {"id": "ubuntu", "version_id": "22.04", "kernel": "5.15.0-160-generic"},
            {"runc": "1.2.5-0ubuntu1"},
        ),
        ({}, {"containerd.io": "2.2.0-1"}),
    ],
)
def test_what_no_row_speaks_of_is_not_known_and_never_good(
    os: dict[str, str], packages: dict[str, str]
) -> None:
    told = judge(host(os=os, packages=packages))
    (name,) = packages
    assert (told[name].status, told[name].required) == (UNKNOWN, False)
    assert f"no row covers {name}" in told[name].cause
    if os:
        assert told["kernel"].status is UNKNOWN


@pytest.mark.parametrize(
    ("id", "release", "kernel", "status"),
    [
        ("debian", "12", "6.1.0-56-amd64", PASS),
        ("debian", "12", "6.1.0-9-cloud-amd64", WARN),
        ("debian", "12", "6.12.9+bpo-amd64", UNKNOWN),
        ("debian", "13", "6.12.118+deb13-amd64", PASS),
        ("debian", "13", "6.12.99+deb13-amd64", WARN),
        ("ubuntu", "24.04", "6.8.0-151-generic", PASS),
        ("ubuntu", "24.04", "6.8.0-124-generic", WARN),
        ("ubuntu", "24.04", "6.14.0-33-generic", UNKNOWN),
    ],
)
def test_the_kernel_that_runs_is_judged_within_its_series(
    id: str, release: str, kernel: str, status: Status
) -> None:
    told = judge(host(os={"id": id, "version_id": release, "kernel": kernel}))
    assert told["gpu-1" if status is PASS else "kernel"].status is status


def test_a_container_has_its_machines_kernel() -> None:
    now = host(os={"container": "systemd-nspawn", "kernel": "6.1.0-1-amd64"})
    assert set(judge(now)) == {"nvidia-driver"}


def test_a_driver_that_does_not_answer_is_not_known() -> None:
    told = judge(host(gpus=None, errors={"gpus": "NVML does not load"}))
    assert (told["nvidia-driver"].status, told["nvidia-driver"].required) == (UNKNOWN, False)
    assert "NVML does not load" in told["nvidia-driver"].cause


def test_old_data_call_nothing_good_and_still_name_what_was_behind_then() -> None:
    new, old = host("2027-06-01", **driver("580.178.04")), host("2027-06-01", **driver("580.95.05"))
    told = judge(new)["nvidia-driver"]
    assert (told.status, told.required) == (UNKNOWN, False)
    assert "218 days old, at most 90 count" in told.cause
    assert judge(old)["nvidia-driver"].status is WARN
    longer = SITE.model_copy(update={"limits": {CHECK: Limit(value=365, source="ours")}})
    assert judge(new, longer)["gpu-1"].status is PASS
    assert judge(host("nonsense", **driver("580.178.04")))["nvidia-driver"].status is UNKNOWN
    # A clock that stands before somebody looked makes nothing young.
    assert judge(host("2020-01-01", **driver("580.178.04")))["nvidia-driver"].status is UNKNOWN


def test_a_row_of_the_site_counts_where_somebody_looked_later() -> None:
    def row(looked: str) -> Advisory:
        return Advisory(of="nvidia-driver", fixed=("580.200.01",), source="ours", looked=looked)

    now = host("2027-02-01", **driver("580.178.04"))
    assert judge(now, with_rows(row("2027-01-30")))["nvidia-driver"].status is WARN
    assert judge(now, with_rows(row("2026-01-30")))["nvidia-driver"].status is UNKNOWN
    runc = Advisory(
        of="runc", system="rhel-9", fixed=("1.2.5-2",), source="RHSA", looked="2026-11-01"
    )
    rocky = host(os={"id": "rocky", "version_id": "9.6"}, packages={"runc": "1.2.5-1"})
    assert judge(rocky, with_rows(runc))["runc"].status is WARN


def test_every_row_says_who_and_when_and_its_own_version_is_good() -> None:
    for row in advisories():
        assert row.source
        assert row.looked >= "2026"
        assert all(is_fixed(row, version) for version in row.fixed)
        assert newest(advisories(), row.of, row.system) is row
