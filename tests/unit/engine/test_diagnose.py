"""What tools print becomes a cause and a remedy; what nobody has seen before is passed on whole."""

import pytest

from appliance.engine.diagnose import diagnose


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
        ("sudo: a password is required", "sudo without a password", "NOPASSWD"),
        ("touch: Read-only file system", "read-only", "dmesg"),
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
