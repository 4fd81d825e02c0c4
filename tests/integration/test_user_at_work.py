"""What a user may do is no drift: a job with files of its own, a key that the user adds, a crontab on a login host.

A job in a container is in test_slurm_containers.py, where the rack has containers.
"""

from collections.abc import Iterator

import pytest

from tests.integration.deployed import USER, Deployed

pytestmark = pytest.mark.rack

KEYS = f"/data/home/{USER}/.ssh/authorized_keys"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHFmS1hVb0JtY0h0R2xkc2NhbGVzd2l0aG91dGxp mine"
APT = "DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes"
# The package takes /etc/cron.allow along, whoever wrote it.
WITHOUT_CRON = f"""
set -e
[ ! -e /etc/cron.allow ] || cp -p /etc/cron.allow /run/cron.allow
{APT} purge cron cron-daemon-common
rm -rf /var/spool/cron
[ ! -e /run/cron.allow ] || mv /run/cron.allow /etc/cron.allow
"""
JOB = 'cd "$SCRATCH" && echo mine > result && stat -c "%U %a" . && cat result && echo "$SCRATCH"'


def _as_user(deployed: Deployed, script: str) -> str:
    return deployed.said("head", f"runuser -u {USER} -- sh -c {script!r}")


@pytest.fixture
def worked(deployed: Deployed) -> Iterator[list[str]]:
    """What a user's job printed. The user's own key and dotfile are gone again afterwards."""
    said = deployed.shell(
        "head", f"runuser -u {USER} -- srun -w gpu-1 --immediate=60 sh -s", input=JOB
    )
    assert said.returncode == 0, said.stderr
    _as_user(deployed, f"mkdir -p -m 700 ~{USER}/.ssh && echo {KEY} >> {KEYS}")
    _as_user(deployed, f"echo alias ll=ls >> ~{USER}/.bashrc")
    yield said.stdout.splitlines()
    _as_user(deployed, f"sed -i /mine/d {KEYS}; sed -i /alias/d ~{USER}/.bashrc")


@pytest.fixture
def with_cron(deployed: Deployed) -> Iterator[Deployed]:
    """Debian's cron, which no image of the rack has, on a host for logins and on one for jobs; gone again afterwards."""
    hosts = ("head", "gpu-1")
    for host in hosts:
        got = deployed.shell(host, f"{APT} update && {APT} install --download-only cron")
        if got.returncode:
            pytest.skip(f"{host} gets no package of Debian's: {got.stderr.strip()[-200:]}")
    try:
        for host in hosts:
            deployed.said(host, f"{APT} install cron")
        yield deployed
    finally:
        for host in hosts:
            deployed.said(host, WITHOUT_CRON)


def test_a_crontab_is_the_user_s_own_on_a_login_host_and_denied_where_jobs_run(
    with_cron: Deployed,
) -> None:
    write = f"runuser -u {USER} -- crontab -"
    for line in ("@yearly true", "@monthly true"):
        done = with_cron.shell("head", write, input=f"{line}\n")
        assert done.returncode == 0, done.stderr
    denied = with_cron.shell("gpu-1", write, input="@yearly true\n")
    assert denied.returncode != 0
    assert "not allowed" in denied.stderr
    judged = with_cron.program("health")
    assert judged.returncode == 0, judged.stdout
    assert {cell.stage for cell in with_cron.plan().pending()} <= {"validate"}
    assert with_cron.deploy("--until", "observe").returncode == 0
    assert "@monthly true" in with_cron.said("head", f"crontab -u {USER} -l")


def test_a_user_s_job_key_and_dotfiles_are_no_drift(deployed: Deployed, worked: list[str]) -> None:
    owner, result, scratch = worked
    assert owner == f"{USER} 700"
    assert result == "mine"
    assert deployed.shell("gpu-1", f"test -e {scratch}").returncode == 1
    judged = deployed.program("health")
    assert judged.returncode == 0, judged.stdout
    # Other tests of this rack deploy single stages, which leaves the last one open.
    assert {cell.stage for cell in deployed.plan().pending()} <= {"validate"}
    assert "mine" in deployed.said("head", f"cat {KEYS}")


PMIX = """
import ctypes
class Process(ctypes.Structure):
    _fields_ = [("space", ctypes.c_char * 256), ("rank", ctypes.c_uint32)]
pmix, me = ctypes.CDLL("libpmix.so.2"), Process()
assert pmix.PMIx_Init(ctypes.byref(me), None, 0) == 0
assert pmix.PMIx_Fence(None, 0, None, 0) == 0
assert pmix.PMIx_Finalize(None, 0) == 0
print(me.rank)
"""
"""A process that finds its rank and waits for all others, as every MPI program does first."""


def test_processes_of_a_job_on_two_hosts_find_each_other_by_pmix(deployed: Deployed) -> None:
    ask = f"runuser -u {USER} -- srun --mpi=pmix -N2 -n4 --immediate=60"
    said = deployed.shell("head", f"cd / && {ask} python3 -c '{PMIX}'")
    assert said.returncode == 0, said.stderr
    assert sorted(said.stdout.split()) == ["0", "1", "2", "3"]
