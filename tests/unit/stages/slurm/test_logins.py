"""Whether ssh to GPU hosts asks for a job: what the site wants, what keeps a host from it, and what a hand changed."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.facts import Drift, Receipt
from appliance.models.result import CheckResult, Status
from appliance.stages.slurm import ids as slurm_ids
from appliance.stages.slurm.checks.logins import PAM
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me"
USERS = {"users": [{"name": "ada", "uid": 2001, "keys": [KEY]}]}
HOSTS = ("head", "gpu-1", "gpu-2")


def said(
    *, hosts: tuple[Any, ...] = HOSTS, base: Any = USERS, slurm: Any = None, **of_gpu_1: Any
) -> list[CheckResult]:
    """What is said of all hosts; those of gpu-1 have something more."""
    site = site_of(*hosts, base=base, slurm=slurm or {})
    facts = {
        h.name: facts_of(h.name, **(of_gpu_1 if h.name == "gpu-1" else {})) for h in site.hosts
    }
    return said_by(slurm_ids.LOGINS, View(profile_of(), site, facts))


def receipt(*changed: str) -> dict[str, Receipt]:
    drift = tuple(
        Drift(kind="file", name=n, expected="as written", found="changed") for n in changed
    )
    told = {"fingerprint": "f", "written": "w", "run": "r", "appliance": "1", "resources": 9}
    return {"slurm": Receipt(stage="slurm", drift=drift, **told)}


def test_hosts_that_ask_for_a_job_pass() -> None:
    found = said(receipts=receipt("/etc/hosts"))
    assert [(r.target, r.status, r.value) for r in found] == [
        ("gpu-1", Status.PASS, "a job"),
        ("gpu-2", Status.PASS, "a job"),
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"base": {}},
        {"slurm": {"ssh_needs_job": False}},
        {"hosts": ({"name": "gpu-1", "roles": ["control", "gpu"]},)},
        {"hosts": ("head", {"name": "gpu-1", "roles": ["login", "gpu"]})},
    ],
)
def test_nothing_is_said_where_nothing_is_wanted_or_people_submit_jobs(given: Any) -> None:
    assert said(**given) == []


def test_jobs_that_the_site_does_not_hold_cannot_be_asked_for() -> None:
    found = {r.target: r for r in said(slurm={"ssh_needs_job": True, "constrain": False})}
    assert found["gpu-2"].status is Status.FAIL
    assert "slurm.constrain" in found["gpu-2"].cause


def test_a_file_that_was_changed_by_hand_is_named() -> None:
    found = {r.target: r for r in said(receipts=receipt(PAM))}
    assert (found["gpu-1"].status, found["gpu-2"].status) == (Status.FAIL, Status.PASS)
    assert "/etc/pam.d/sshd was changed by hand" in found["gpu-1"].cause
    assert "--hosts gpu-1" in found["gpu-1"].fix


@pytest.mark.parametrize(
    ("system", "own"),
    [
        ({"container": "systemd-nspawn"}, "gpu-1 is a container"),
        ({"cgroup": "hybrid"}, "gpu-1 has control groups hybrid, not v2"),
        ({"id": "ubuntu", "version_id": "22.04"}, "Slurm that knows no cgroup v2"),
        ({"id": "rocky", "version_id": "9.4"}, "gpu-1 is of the RHEL family"),
    ],
)
@pytest.mark.parametrize(("chosen", "status"), [(None, Status.WARN), (True, Status.FAIL)])
def test_a_host_that_cannot_ask_says_so_and_why(
    system: Any, own: str, chosen: bool | None, status: Status
) -> None:
    found = {r.target: r for r in said(slurm={"ssh_needs_job": chosen}, os=system)}
    assert found["gpu-1"].status is status
    assert own in found["gpu-1"].cause
    assert "ssh_needs_job: false" in found["gpu-1"].fix
    assert found["gpu-2"].status is Status.PASS
