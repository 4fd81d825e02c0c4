"""Benchmarks through the rack's real Slurm: figures of each host, evidence kept, what is planted named and nothing else, a lost line costs nothing."""

import json
import re
import shutil
import subprocess  # noqa: TID251 - the program is killed at work
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.benchmarks.batch import Job
from appliance.engine.run.benchmark_jobs import NOTED
from appliance.lab.kubernetes_build import MOUNT_NFS
from appliance.lab.spec import Rack, cache_root, load
from tests.integration.bare import assert_whole, reasons
from tests.integration.deployed import NAME, Deployed
from tests.integration.slowed import (
    assert_named,
    false_products,
    limited,
    slow_disk,
    slow_processors,
)

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


Found = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def rack() -> Rack:
    """The shared rack, to plant what has no name among the lab's faults."""
    found = load(NAME)
    assert found is not None
    return found


def measured(rack: Deployed, code: int) -> tuple[Found, Path]:
    """Results of fio by check and host, and the folder of the run; the program must end with ``code``."""
    found, folder = results_of(rack, code, "fio")
    return {key: r for key, r in found.items() if key[0].startswith("fio.scratch")}, folder


def results_of(rack: Deployed, code: int, *words: str, seconds: float = 300) -> tuple[Found, Path]:
    """Results by check and host (or target), and the folder of the run; the program must end with ``code``."""
    done = rack.program("validate", *words, "--json", timeout=seconds)
    assert done.returncode == code, done.stdout[-2000:] + done.stderr
    record = json.loads(done.stdout)
    found = {(r["id"], r["host"] or r["target"]): r for r in record["results"]}
    return found, rack.site / "runs" / record["run"]


def test_a_tool_that_is_missing_is_told_with_its_package(deployed: Deployed) -> None:
    done = deployed.program("validate", "perftest", "fio", "--json", timeout=120)
    assert done.returncode == 3
    told = [r for r in json.loads(done.stdout)["results"] if r["id"] == "fio.scratch_read"]
    assert {(r["status"], r["cause"]) for r in told} == {("not_assessed", "fio is not there")}
    assert all("install fio" in r["fix"] for r in told)


def test_scratch_is_measured_host_by_host(with_fio: Deployed) -> None:
    with limited(with_fio.site, "fio.scratch_read"):
        found, _ = measured(with_fio, 0)
    assert set(found) == {(f"fio.scratch_{name}", host) for name in FIGURES for host in GPU_HOSTS}
    assert all(r["value"] > 0 and r["simulated"] for r in found.values())
    # Two hosts are no equals: what has no limit is not called good.
    assert {check: r["status"] for (check, _), r in found.items()} == {
        f"fio.scratch_{name}": "pass" if name == "read" else "not_assessed" for name in FIGURES
    }


def test_the_host_whose_disk_is_throttled_is_named_and_no_other(
    with_fio: Deployed, rack: Rack
) -> None:
    with (
        limited(with_fio.site, "fio.scratch_write", "fio.scratch_read"),
        slow_disk(rack, "gpu-2", SLOW),
    ):
        found, folder = measured(with_fio, 1)
    failed = {key for key, r in found.items() if r["status"] == "fail"}
    assert failed == {("fio.scratch_write", "gpu-2"), ("fio.scratch_read", "gpu-2")}
    assert found["fio.scratch_write", "gpu-1"]["status"] == "pass"
    kept = folder / "evidence/fio"
    assert {file.name for file in kept.iterdir()} == {f"scratch-{host}.txt" for host in GPU_HOSTS}


def test_a_line_that_is_lost_loses_no_job(with_fio: Deployed) -> None:
    """The program is killed while fio is at work; whoever comes back reads that job, and submits the next."""
    before = len(with_fio.journal("", NOTED))
    argv = [sys.executable, "-m", "appliance", "validate", "fio", "--site", str(with_fio.site)]
    with limited(with_fio.site, "fio.scratch_read"):
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
            first = begun(with_fio, before)
            killed.kill()
        assert "appliance-fio-" in with_fio.said("head", "squeue --noheader --format=%j")
        done = with_fio.program("validate", "--resume", first, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    noted = [Job.model_validate(entry.data["job"]) for entry in with_fio.journal(first, NOTED)]
    assert [job.key for job in noted if job.id] == [f"fio scratch {h}" for h in GPU_HOSTS]
    results = with_fio.record(first).results
    measured = {r.host for r in results if r.id == "fio.scratch_read" and r.value}
    assert measured == set(GPU_HOSTS)


def begun(rack: Deployed, before: int) -> str:
    """The run whose job has its number."""
    for _ in range(300):
        noted = rack.journal("", NOTED)[before:]
        if any(Job.model_validate(entry.data["job"]).id for entry in noted):
            return noted[0].run
        time.sleep(0.2)
    raise AssertionError("no job was submitted within a minute")


HOLD = "sbatch --parsable --nodelist=gpu-2 --exclusive --job-name=held --output=/dev/null --wrap 'sleep 600'"


def test_a_host_that_is_at_work_is_no_fault_and_spoils_no_other(with_fio: Deployed) -> None:
    held = with_fio.said("head", HOLD).strip()
    try:
        with limited(with_fio.site, "fio.scratch_read"):
            found, _ = measured(with_fio, 3)
    finally:
        with_fio.said("head", f"scancel {held}")
    busy = found["fio.scratch_read", "gpu-2"]
    assert busy["status"] == "not_assessed"
    assert re.match(r"it is busy: PENDING \((Resources|Priority)\)", busy["cause"])
    assert found["fio.scratch_read", "gpu-1"]["value"] > 0
    left = with_fio.said("head", "squeue --noheader --format=%j")
    assert "appliance-fio" not in left


def test_a_program_that_hangs_is_ended_within_its_time_and_its_host_named(
    with_fio: Deployed,
) -> None:
    stuck = "/usr/local/sbin/fio"
    with_fio.said("gpu-2", f"printf '#!/bin/sh\\nexec sleep 900\\n' >{stuck} && chmod 755 {stuck}")
    try:
        with limited(with_fio.site, "fio.scratch_read"):
            found, _ = measured(with_fio, 3)
    finally:
        with_fio.said("gpu-2", f"rm {stuck}")
    hung = found["fio.scratch_read", "gpu-2"]
    assert (hung["status"], hung["cause"]) == ("error", "it did not end within 105 s")
    assert found["fio.scratch_read", "gpu-1"]["value"] > 0
    assert with_fio.shell("gpu-2", "pgrep -f '^sleep 900$'").stdout == ""


PROLOG = "/etc/slurm/task-prolog.sh"


def test_a_host_that_gives_a_job_fewer_gpus_is_named(deployed: Deployed) -> None:
    """As a prolog of somebody's own does that sets the variable."""
    fewer = "export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6"
    deployed.said("gpu-2", f"cp -a {PROLOG} /root/prolog; sed -i '2i echo {fewer}' {PROLOG}")
    try:
        found, _ = results_of(deployed, 1, "slurm")
    finally:
        deployed.said("gpu-2", f"mv /root/prolog {PROLOG}")
    job = found["slurm.job", "cluster"]
    assert job["status"] == "fail"
    assert job["cause"].startswith("gpu-2 gave the job 7 of 8 GPUs")


@pytest.mark.cluster
def test_products_are_measured_on_each_host_and_one_that_computes_falsely_is_named(
    deployed: Deployed,
) -> None:
    with false_products(deployed.said, "gpu-2"):
        found, folder = results_of(deployed, 1, "gemm")
    assert_named(found, "gpu-1", "gpu-2")
    kept = {file.name for file in (folder / "evidence/gemm").iterdir()}
    assert kept == {f"{host}.json" for host in GPU_HOSTS}


@pytest.fixture
def with_hpcc(deployed: Deployed) -> Iterator[Deployed]:
    """The shared rack with HPC Challenge on its GPU hosts."""
    get = "apt-get install -y --no-install-recommends hpcc openmpi-bin >/dev/null"
    for host in GPU_HOSTS:
        deployed.said(host, get)
    yield deployed
    for host in GPU_HOSTS:
        deployed.said(host, "apt-get purge -y hpcc >/dev/null; apt-get autoremove -y >/dev/null")


@pytest.mark.cluster
def test_a_host_that_lacks_processor_time_fails_its_limit_and_no_other(
    with_hpcc: Deployed, rack: Rack
) -> None:
    """A third of what was measured just before: hosts of one machine are slow together where that has other work."""
    sound, _ = results_of(with_hpcc, 0, "hpcc", seconds=600)
    least = min(sound["hpcc.hpl", host]["value"] for host in GPU_HOSTS)
    with (
        limited(with_hpcc.site, "hpcc.hpl", value=least / 3, unit="GFLOPS"),
        slow_processors(rack, "gpu-2", 0.06),
    ):
        found, _ = results_of(with_hpcc, 1, "hpcc", seconds=600)
    assert {host: found["hpcc.hpl", host]["status"] for host in GPU_HOSTS} == {
        "gpu-1": "pass",
        "gpu-2": "fail",
    }


@pytest.mark.cluster
def test_the_bare_command_measures_all_that_needs_no_gpu(
    with_fio: Deployed, with_hpcc: Deployed
) -> None:
    done = with_hpcc.program("validate", "--through", "slurm", "--json", timeout=900)
    record = assert_whole(done, "bare-metal", "storage", "slurm", "gpt3", "gemm", "fio", "hpcc")
    left = reasons(record["left_out"])
    assert "GPUs" in left["burnin"]
    assert "--endpoint" in left["serving"]


@pytest.mark.slow
def test_a_gpu_that_slows_down_by_heat_during_burn_in_is_named(deployed: Deployed) -> None:
    argv = [sys.executable, "-m", "appliance", "validate", "burnin", "--minutes", "1", "--json"]
    argv += ["--site", str(deployed.site)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as program:
        try:
            time.sleep(30)
            deployed.fault("gpu-2", "thermal", "5")
            said, _ = program.communicate(timeout=400)
        finally:
            program.kill()
            deployed.fault("gpu-2", "thermal", "5", clear=True)
    found = [r for r in json.loads(said)["results"] if r["id"] == "burnin.clocks"]
    bad = [r for r in found if r["status"] == "fail"]
    assert [(r["host"], "GPU 5" in r["target"]) for r in bad] == [("gpu-2", True)], found
    assert "gpu-1" in {r["host"] for r in found}


AT, EXPORT = "/data", "/srv/data"


@pytest.fixture
def with_mount(with_fio: Deployed, rack: Rack) -> Iterator[str]:
    """The site's shared directory mounted on the GPU hosts, as a kernel with NFS would; where, as results name it."""
    built = sorted(cache_root().glob(f"lab/cluster-*/{MOUNT_NFS}"))
    if not built:
        pytest.skip("the rack's mount.nfs is built with its cluster: appliance lab up --kubernetes")
    server = rack.host("head").address
    for host in GPU_HOSTS:
        shutil.copy(built[-1], rack.host(host).root / "sbin/mount.nfs")
        node = "[ -e /dev/fuse ] || mknod -m 666 /dev/fuse c 10 229"
        with_fio.said(host, f"{node}; mkdir -p {AT}; mount -t nfs {server}:{EXPORT} {AT}")
    yield AT.removeprefix("/")
    for host in GPU_HOSTS:
        with_fio.said(host, f"umount {AT}; rm -f /sbin/mount.nfs")


@pytest.mark.cluster
def test_a_server_that_is_throttled_is_what_all_hosts_together_show(
    with_fio: Deployed, rack: Rack, with_mount: str
) -> None:
    totals = ("fio.total_write", "fio.total_read")
    target = f"cluster/{with_mount} 2 hosts"
    sound, _ = results_of(with_fio, 1, "fio")
    least = min(sound[check, target]["value"] for check in totals)
    with (
        limited(with_fio.site, *totals, value=least / 3),
        slow_processors(rack, "head", 0.05, "ganesha.nfsd"),
    ):
        found, _ = results_of(with_fio, 1, "fio")
    assert {found[check, target]["status"] for check in totals} == {"fail"}
    assert "server's disks" in found[totals[0], target]["fix"]
