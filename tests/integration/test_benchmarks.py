"""Benchmarks through the rack's real Slurm: figures of each host, evidence kept, and the host whose disk is slow named."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.lab.spec import load
from tests.integration.deployed import NAME, Deployed
from tests.integration.slowed import slow_disk

pytestmark = pytest.mark.rack

GPU_HOSTS = ("gpu-1", "gpu-2")
FIGURES = ("write", "read", "random_write", "random_read", "create")
SLOW = 3_000_000
"""Bytes/s; a tenth of the least that a disk of this century does."""


@pytest.fixture(scope="module")
def with_fio(deployed: Deployed) -> Iterator[Deployed]:
    """The shared rack with fio on its GPU hosts."""
    install = "apt-get install -y --no-install-recommends fio >/dev/null && fio --version"
    assert {deployed.said(host, install).split("-")[0] for host in GPU_HOSTS} == {"fio"}
    yield deployed
    for host in GPU_HOSTS:
        deployed.said(host, "apt-get purge -y fio >/dev/null")


def measured(rack: Deployed, code: int) -> tuple[dict[tuple[str, str], dict[str, Any]], Path]:
    """Results of fio by check and host, and the folder of the run; the program must end with ``code``."""
    done = rack.program("validate", "fio", "--json", timeout=300)
    assert done.returncode == code, done.stdout[-2000:] + done.stderr
    record = json.loads(done.stdout)
    found = {
        (r["id"], r["host"]): r for r in record["results"] if r["id"].startswith("fio.scratch")
    }
    return found, rack.site / "runs" / record["run"]


def test_a_tool_that_is_missing_is_told_with_its_package(deployed: Deployed) -> None:
    done = deployed.program("validate", "perftest", "fio", "--json", timeout=120)
    assert done.returncode == 3
    told = [r for r in json.loads(done.stdout)["results"] if r["id"] == "fio.scratch_read"]
    assert {(r["status"], r["cause"]) for r in told} == {("not_assessed", "fio is not there")}
    assert all("install fio" in r["fix"] for r in told)


@contextmanager
def limited(rack: Deployed, *checks: str) -> Iterator[None]:
    """The site asks of these what any disk reaches; its own limits stand above the profile's."""
    file = rack.site / "site.yml"
    before = file.read_text()
    assert "\nlimits:" not in before
    floor = "{value: 0.02, unit: GB/s, source: any disk}"
    file.write_text(
        f"{before.rstrip()}\nlimits:\n" + "".join(f"  {check}: {floor}\n" for check in checks)
    )
    try:
        yield
    finally:
        file.write_text(before)


def test_scratch_is_measured_host_by_host(with_fio: Deployed) -> None:
    with limited(with_fio, "fio.scratch_read"):
        found, _ = measured(with_fio, 0)
    assert set(found) == {(f"fio.scratch_{name}", host) for name in FIGURES for host in GPU_HOSTS}
    assert all(r["value"] > 0 and r["simulated"] for r in found.values())
    # Two hosts are no equals: what has no limit is not called good.
    assert {check: r["status"] for (check, _), r in found.items()} == {
        f"fio.scratch_{name}": "pass" if name == "read" else "not_assessed" for name in FIGURES
    }


def test_the_host_whose_disk_is_throttled_is_named_and_no_other(with_fio: Deployed) -> None:
    rack = load(NAME)
    assert rack is not None
    with (
        limited(with_fio, "fio.scratch_write", "fio.scratch_read"),
        slow_disk(rack, "gpu-2", SLOW),
    ):
        found, folder = measured(with_fio, 1)
    failed = {key for key, r in found.items() if r["status"] == "fail"}
    assert failed == {("fio.scratch_write", "gpu-2"), ("fio.scratch_read", "gpu-2")}
    assert found["fio.scratch_write", "gpu-1"]["status"] == "pass"
    kept = folder / "evidence/fio"
    assert {file.name for file in kept.iterdir()} == {f"scratch-{host}.txt" for host in GPU_HOSTS}
