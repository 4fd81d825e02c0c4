"""Containers in Slurm jobs on the rack: the plugin compiled and loaded by the real Slurm, and taken away again."""

from collections.abc import Iterator

import pytest

from appliance.models.site import Role
from tests.integration.deployed import HOSTS, ROLES, USER, Deployed

pytestmark = pytest.mark.rack

PLUGIN = "/usr/local/lib/slurm/spank_pyxis.so"
STAGE = ("--stage", "slurm")
WITHOUT_JOB = "ssh_needs_job: false"
"""The shared rack's word on logins, which is one section with that of containers."""
GPU_HOSTS = sorted(host for host in HOSTS if Role.GPU in ROLES[host])
SRUN = f"srun -N{len(GPU_HOSTS)} --immediate=60"
JOB = f"{SRUN} --container-image=a/b:1 --container-mounts=/data:/data"
TELL = "sh -c 'echo $SIMULATED_CONTAINER_IMAGE $SIMULATED_CONTAINER_MOUNTS'"
# The release a plugin was built for is a number of its own in the binary; this one is of no Slurm.
OTHER_RELEASE = f"""
set -e
cd "$(mktemp -d)"
tar -xzf /var/lib/appliance/slurm-containers/pyxis-*.tar.gz --strip-components=1
sed -i '/include <slurm.spank.h>/a #undef SLURM_VERSION_NUMBER\\n#define SLURM_VERSION_NUMBER 0x150800' pyxis.c
make --silent
cp spank_pyxis.so {PLUGIN}
"""


@pytest.fixture(scope="module")
def with_containers(deployed: Deployed) -> Iterator[Deployed]:
    """The shared rack with the section its site.yml carries as a comment; without it again at the end, and with nothing left to do."""
    file = deployed.site / "site.yml"
    before = file.read_text()
    text, mark, section = before.partition("# Containers in Slurm jobs")
    assert mark, "the rack's site.yml has no such comment"
    title, _, rest = section.partition("\n")
    lines = [line.removeprefix("# ") for line in rest.split("\n")]
    with_section = "\n".join((text + mark + title, *lines))
    assert with_section.count(WITHOUT_JOB) == with_section.count("\nslurm:\n") == 1
    one = with_section.replace(f"\nslurm: {{{WITHOUT_JOB}}}", "")
    file.write_text(one.replace("\nslurm:\n", f"\nslurm:\n  {WITHOUT_JOB}\n"))
    try:
        done = deployed.deploy(*STAGE)
        assert done.returncode == 0, done.stdout + done.stderr
        yield deployed
    finally:
        file.write_text(before)
        gone = deployed.deploy()
    assert gone.returncode == 0, gone.stdout + gone.stderr
    _nothing_is_left(deployed)


def _nothing_is_left(deployed: Deployed) -> None:
    left = "ls -d /var/lib/appliance/slurm-containers* /etc/enroot/enroot.conf /usr/bin/enroot"
    for host in HOSTS:
        assert "--container-image" not in deployed.said(host, "srun --help")
        assert deployed.shell(host, f"{left} {PLUGIN}").stdout == ""
    assert sorted(deployed.said("head", f"{SRUN} hostname").split()) == GPU_HOSTS


def test_a_job_in_a_container_is_taken_by_the_real_slurm(with_containers: Deployed) -> None:
    for host in HOSTS:
        assert "--container-mounts=" in with_containers.said(host, "srun --help")
    # The look-alike enroot refuses folders that are not the user's own and closed to others.
    told = with_containers.said("head", f"{JOB} {TELL}")
    assert told.splitlines() == ["a/b:1 /data:/data"] * len(GPU_HOSTS)
    assert "a_b_1" in with_containers.said("gpu-1", "ls /scratch/enroot/data/0")


def test_a_user_s_job_in_a_container_writes_to_scratch_and_leaves_nothing_to_mend(
    with_containers: Deployed,
) -> None:
    script = 'cd "$SCRATCH" && echo mine > result && stat -c "%U %a" . && cat result && pwd'
    srun = f"runuser -u {USER} -- srun --chdir=/ -w gpu-1 --immediate=60 --container-image=a/b:1"
    told = with_containers.shell(
        "head", f"{srun} sh -s", input=f"{script}\necho $SIMULATED_CONTAINER_IMAGE\n"
    )
    assert told.returncode == 0, told.stderr
    owner, result, scratch, image = told.stdout.splitlines()
    assert (owner, result, image) == (f"{USER} 700", "mine", "a/b:1")
    assert with_containers.shell("gpu-1", f"test -e {scratch}").returncode == 1
    judged = with_containers.program("health")
    assert judged.returncode == 0, judged.stdout
    # The fixture has deployed one stage alone, which leaves the last one open.
    assert {cell.stage for cell in with_containers.plan().pending()} <= {"validate"}
    assert with_containers.deploy("--until", "observe").returncode == 0


def test_a_second_deployment_changes_nothing(with_containers: Deployed) -> None:
    changes = [c.host for c in with_containers.plan().by_stage("slurm") if c.action.changes]
    assert changes == []


def test_a_plugin_of_another_release_is_found_and_built_again(with_containers: Deployed) -> None:
    planted = with_containers.shell("gpu-1", "sh -s", input=OTHER_RELEASE)
    assert planted.returncode == 0, planted.stderr
    refused = with_containers.shell("gpu-1", "srun --immediate=5 true")
    assert refused.returncode != 0
    assert "spank" in refused.stderr.lower()
    judged = with_containers.program("health", "--check", "slurm.pyxis")
    assert judged.returncode == 1
    assert "gpu-1" in judged.stdout
    assert "is not the plugin that was built here" in judged.stdout
    assert with_containers.deploy(*STAGE).returncode == 0
    assert with_containers.program("health", "--check", "slurm.pyxis").returncode == 0
    assert with_containers.said("gpu-1", f"srun -w gpu-1 --immediate=60 {TELL}").strip() == ""
