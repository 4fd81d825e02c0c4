"""ClusterMAX's own program, of PyPI and pinned, on a rack that has what a site can ask for; its verdicts are those we know of."""

import os
import stat
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.benchmarks.foreign import clustermax
from appliance.benchmarks.foreign.shown import mapped
from appliance.lab import ssh
from appliance.lab.spec import load
from tests.integration.deployed import NAME, Deployed, appliance

pytestmark = [pytest.mark.audit, pytest.mark.rack, pytest.mark.slow]

PINNED = Path(__file__).parents[1] / "data" / "audit" / "clustermax.txt"
AT = "/root/clustermax"
AUDIT = f"""set -e
export DEBIAN_FRONTEND=noninteractive
dpkg -s jq >/dev/null 2>&1 || apt-get install -qq --no-install-recommends jq >/dev/null
cd {AT}
PYTHONPATH={AT} HOME={AT}/home python3 -m cmax.cli audit --slurm -y >{AT}/said 2>&1 || (tail -20 {AT}/said >&2; exit 9)
cat {AT}/home/.clustermax/audit/*/audit.values.json
"""
ASKED = """
  tools: [everyday, modules, perf]
  profiling: true
"""
SHOWN = ("fail", "warning")
EXPLAINED = {
    "containers.dockerOnWorkers",
    "containers.singularity",
    "gpus.gdrcopy.installed",
    "healthChecks.monitoringStack.dcgmExporter",
    "healthChecks.nhcInstalled",
    "software.nccl.installed",
    "software.ncu.installed",
    "software.nvhpc.status",
}
"""What fails there still, each item with its reason in docs/acceptance.md."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program and what it imports, by digest."""
    folder = tmp_path_factory.mktemp("clustermax")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes")
    run((*pip, "--target", str(folder), "-r", str(PINNED)), timeout=300)
    started = folder / "bin" / "cmax"
    started.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} -m cmax.cli "$@"\n')
    started.chmod(started.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.fixture(scope="module")
def equipped(deployed: Deployed) -> Iterator[Deployed]:
    """The shared rack with containers, tools and profiling; as it was at the end."""
    assert deployed.first.returncode == 0, deployed.first.stdout
    file = deployed.site / "site.yml"
    before = file.read_text()
    text, mark, section = before.partition("# Containers in Slurm jobs")
    assert mark, "the rack's site.yml has no such comment"
    title, _, rest = section.partition("\n")
    lines = [line.removeprefix("# ") for line in rest.split("\n")]
    asked = "\n".join((text + mark + title, *lines))
    one = asked.replace("\nslurm: {ssh_needs_job: false}", "")
    file.write_text(
        one.replace("\nslurm:\n", "\nslurm:\n  ssh_needs_job: false\n").replace(
            "\nbase:", f"\nbase:{ASKED.rstrip()}"
        )
    )
    try:
        done = deployed.deploy()
        assert done.returncode == 0, done.stdout + done.stderr
        yield deployed
    finally:
        file.write_text(before)
        done = deployed.deploy()
    assert done.returncode == 0, done.stdout + done.stderr


def audited(rack: Deployed, program: Path, folder: Path) -> Path:
    """What the program saw on head, as the file that it writes."""
    packed = folder / "program.tar"
    run(("tar", "-C", str(program), "-cf", str(packed), "--exclude=bin", "."), timeout=60)
    rack.said("head", f"rm -rf {AT}; mkdir -p {AT}/home")
    found = load(NAME)
    assert found is not None
    unpack = ssh.command(found, found.host("head"), (f"tar -C {AT} -xf -",))
    run(unpack, input=packed.read_bytes(), timeout=60)
    said = appliance("lab", "shell", "--name", NAME, "head", "--", AUDIT, timeout=900)
    rack.said("head", f"rm -rf {AT}")
    assert said.returncode == 0, said.stderr
    values = folder / "audit.values.json"
    values.write_text(said.stdout)
    return values


def test_its_own_review_fails_what_is_explained_and_nothing_else(
    equipped: Deployed, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = audited(equipped, program, tmp_path)
    monkeypatch.setenv("PATH", f"{program / 'bin'}:{os.environ['PATH']}")
    audit = clustermax.read(values, datetime.now(UTC))
    shown = (f"  {i.status} {i.key}: {i.observed}" for i in audit.items if i.status in SHOWN)
    sys.stdout.write("\n".join((f"\nClusterMAX {audit.release}: {audit.counts}", *shown, "")))
    assert {item.key for item in audit.items if item.status == "fail"} == EXPLAINED
    assert {item.key for item in audit.items if item.status in SHOWN} <= set(
        mapped(clustermax.NAME)
    )
    entered = equipped.program("validate", "--foreign", str(values))
    assert entered.returncode == 0, entered.stderr
    assert audit.counts in entered.stdout
