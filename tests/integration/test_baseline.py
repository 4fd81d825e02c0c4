"""What nobody's stage owns, changed by hand on one host: each change one line since the baseline, and none where nothing changed."""

from dataclasses import dataclass

import pytest

from appliance.adapters.process import Completed
from tests.integration.deployed import Deployed, appliance

pytestmark = [pytest.mark.rack, pytest.mark.slow]

HOST = "gpu-1"
UNIT = "[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n"
SYSTEM = "/etc/systemd/system"


@dataclass(frozen=True)
class Change:
    """``plant`` and ``undo`` are lines for the host's shell; ``told`` begins the line it must be, alone."""

    told: str
    plant: str
    undo: str


CHANGES = (
    Change(
        "+ gpu-1: account mallory is new: uid 1501",
        "useradd -u 1501 -N -g nogroup -d /srv/mallory -m mallory",
        "userdel -rf mallory 2>/dev/null",
    ),
    Change(
        "~ gpu-1: account backup: ",
        "usermod -s /bin/sh backup",
        "usermod -s /usr/sbin/nologin backup",
    ),
    Change("~ gpu-1: account games: ", "usermod -p '' games", "usermod -p '*' games"),
    Change("~ gpu-1: account news: ", "usermod -aG sudo news", "usermod -rG sudo news"),
    Change(
        "+ gpu-1: key SHA256:",
        "mkdir -p /var/cache/man/.ssh; ssh-keygen -q -t ed25519 -N '' -f /tmp/k;"
        " cp /tmp/k.pub /var/cache/man/.ssh/authorized_keys",
        "rm -rf /tmp/k /tmp/k.pub /var/cache/man/.ssh",
    ),
    Change(
        "+ gpu-1: setuid file /usr/local/bin/rootme is new: mode 4755, of root:root",
        "cp /bin/true /usr/local/bin/rootme; chmod 4755 /usr/local/bin/rootme",
        "rm /usr/local/bin/rootme",
    ),
    Change(
        "- gpu-1: setuid file /usr/bin/chfn is gone",
        "chmod u-s /usr/bin/chfn",
        "chmod u+s /usr/bin/chfn",
    ),
    Change(
        "+ gpu-1: file capability /usr/local/bin/low is new",
        "cp /bin/true /usr/local/bin/low; setcap cap_net_bind_service+ep /usr/local/bin/low",
        "rm /usr/local/bin/low",
    ),
    Change(
        "+ gpu-1: socket tcp 4444 is new: python3",
        "systemd-run -q --unit=back python3 -m http.server 4444",
        "systemctl stop back",
    ),
    Change(
        "+ gpu-1: unit evil.service is new: wanted by ",
        f"printf '{UNIT}' > /usr/lib/systemd/system/evil.service; systemctl enable -q evil.service",
        "systemctl disable -q evil.service; rm /usr/lib/systemd/system/evil.service",
    ),
    Change(
        f"+ gpu-1: unit file {SYSTEM}/idle.timer is new: content ",
        f"printf '[Timer]\\nOnCalendar=hourly\\n' > {SYSTEM}/idle.timer",
        f"rm {SYSTEM}/idle.timer",
    ),
    Change(
        "- gpu-1: unit apt-daily.timer is gone",
        "systemctl disable -q apt-daily.timer",
        "systemctl enable -q apt-daily.timer",
    ),
    Change(
        "+ gpu-1: package source /etc/apt/keyrings/evil.asc is new",
        "mkdir -p /etc/apt/keyrings; echo x > /etc/apt/keyrings/evil.asc",
        "rm /etc/apt/keyrings/evil.asc",
    ),
    Change(
        "+ gpu-1: package stranger is new: 1.0",
        "cd $(mktemp -d); mkdir -p t/DEBIAN; printf 'Package: stranger\\nVersion: 1.0\\nArchitecture: all\\n"
        "Maintainer: x <x@example.org>\\nDescription: x\\n' > t/DEBIAN/control; dpkg-deb -b t x.deb >/dev/null;"
        " dpkg -i x.deb >/dev/null",
        "dpkg -P stranger >/dev/null",
    ),
)


def baseline(rack: Deployed, verb: str, *flags: str) -> Completed:
    return appliance("baseline", verb, "--inventory", str(rack.site), *flags)


def since(rack: Deployed) -> list[str]:
    """The lines of health --since baseline --deep."""
    said = rack.program("health", "--since", "baseline", "--deep").stdout
    lines = [line.strip() for line in said.splitlines()]
    return [
        line
        for line in lines
        if line[:2] in {"+ ", "- ", "~ ", "? "} and " values not " not in line
    ]


@pytest.fixture(scope="module")
def planted(deployed: Deployed) -> list[str]:
    """The lines while all changes are planted at once; clean before, and after."""
    taken = baseline(deployed, "accept", "--reason", "as deployed")
    assert taken.returncode == 0, taken.stdout
    assert [since(deployed) for _ in range(3)] == [[], [], []]
    try:
        for change in CHANGES:
            deployed.said(HOST, change.plant)
        return since(deployed)
    finally:
        for change in CHANGES:
            deployed.shell(HOST, change.undo)
        deployed.shell(HOST, "systemctl daemon-reload")


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.told)
def test_each_change_is_one_line(planted: list[str], change: Change) -> None:
    assert len([line for line in planted if line.startswith(change.told)]) == 1, planted


def test_nothing_else_is_told(planted: list[str]) -> None:
    assert len(planted) == len(CHANGES), planted


def test_nothing_is_told_once_all_is_undone(deployed: Deployed, planted: list[str]) -> None:
    assert planted
    assert since(deployed) == []


def test_what_somebody_accepts_is_told_no_more(deployed: Deployed, planted: list[str]) -> None:
    assert planted
    deployed.said(HOST, "usermod -s /bin/sh backup")
    try:
        assert len(since(deployed)) == 1
        assert baseline(deployed, "accept", "--reason", "it logs in there").returncode == 0
        assert since(deployed) == []
        assert "it logs in there" in baseline(deployed, "show").stdout
    finally:
        deployed.said(HOST, "usermod -s /usr/sbin/nologin backup")
