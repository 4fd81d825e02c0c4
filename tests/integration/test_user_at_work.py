"""What a user may do is no drift: a job with files of its own, and a key that the user adds."""

from collections.abc import Iterator

import pytest

from tests.integration.deployed import USER, Deployed

pytestmark = pytest.mark.rack

KEYS = f"/data/home/{USER}/.ssh/authorized_keys"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHFmS1hVb0JtY0h0R2xkc2NhbGVzd2l0aG91dGxp mine"
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
