"""What tools print becomes a cause and a remedy; what nobody has seen before is passed on whole."""

import pytest

from appliance.engine.run.diagnose import diagnose, full_filesystem
from tests.support.facts import facts_of


@pytest.mark.parametrize(
    ("said", "cause", "fix"),
    [
        ("/etc/x: no space left on device", "disk is full", "free space on gpu-1"),
        ("[Errno 28] No space left on device", "disk is full", "free space on gpu-1"),
        (
            "E: Unable to locate package slurmd",
            "Unable to locate package slurmd",
            "repositories or mirror",
        ),
        ("Temporary failure resolving 'mirror'", "cannot be reached", "DNS, proxy and mirror"),
        ("Could not get lock /var/lib/dpkg/lock", "lock", "unattended upgrades"),
        ("sudo: a password is required", "needs a password for sudo", "NOPASSWD"),
        ("touch: Read-only file system", "read-only", "dmesg"),
        ("/etc/ntp.conf: Operation not permitted", "immutable attribute", "chattr -i"),
    ],
)
def test_known_words_have_a_known_remedy(said: str, cause: str, fix: str) -> None:
    found = diagnose("gpu-1", "install | Install the packages", said)
    assert cause in found.cause
    assert fix in found.fix


def test_unknown_words_are_kept_with_their_task() -> None:
    found = diagnose("gpu-1", "service | Run it", "the moon is in the wrong house")
    assert "service | Run it" in found.cause
    assert "the moon is in the wrong house" in found.cause
    assert "gpu-1" in found.fix


@pytest.mark.parametrize(
    ("free", "inodes", "type", "at"),
    [
        (0, 100, "ext4", "/var"),
        (1 << 30, 0, "ext4", "/var"),
        (1 << 30, 0, "btrfs", ""),
        (1 << 30, 100, "ext4", ""),
    ],
)
def test_full_disk_is_the_cause_whatever_the_program_complains_of(
    free: int, inodes: int, type: str, at: str
) -> None:
    disk = {"at": "/var", "source": "x", "type": type, "size": 1 << 34, "free": free}
    facts = facts_of("gpu-1", filesystems=[{**disk, "inodes_free": inodes}])
    assert full_filesystem(facts) == at
    found = diagnose("gpu-1", "t", "groupadd: cannot lock /etc/group; try again later.", at)
    assert ("disk is full" in found.cause) is bool(at)
    assert "cannot lock /etc/group" in found.cause


def test_host_that_tells_nothing_has_no_full_disk() -> None:
    assert full_filesystem(None) == ""


@pytest.mark.parametrize(
    "said",
    [
        "/proc/sys/vm/swappiness: Operation not permitted",
        "connect to 10.0.0.1: Operation not permitted",
    ],
)
def test_other_things_root_may_not_do_are_no_attribute(said: str) -> None:
    assert "chattr" not in diagnose("gpu-1", "", said).fix
