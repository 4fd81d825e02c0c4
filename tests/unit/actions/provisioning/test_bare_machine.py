"""What is waited for while a machine is installed, and what is said where it does not come."""

import threading
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from appliance.actions.provisioning import bare_machine
from appliance.actions.provisioning.bare_machine import Deadlines, InstallRun, Reports
from appliance.adapters.redfish import Controller
from appliance.errors import AnotherKey, ApplianceError, ConnectionFailed, DeadlineExceeded
from appliance.models.events import Message
from tests.support.media_site import KEY, site

SOON = Deadlines(start=0.05, silence=0.05, system=0.05, pause=0.01)


class Told:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def handle(self, event: object) -> None:
        assert isinstance(event, Message)
        self.texts.append(event.text)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def work(told: Told) -> InstallRun:
    cancelled = threading.Event()
    session = SimpleNamespace(cancelled=cancelled, site=site())
    image = SimpleNamespace(digest="ab" * 32)
    server = SimpleNamespace(
        url=lambda address: f"https://{address}:8443",
        dismiss=lambda host: None,
        redacted=lambda text: text.replace("secret", "..."),
    )
    values: dict[str, Any] = dict.fromkeys(InstallRun.__dataclass_fields__)
    values["here"] = {"gpu-1": (IPv4Address("10.0.16.5"), IPv4Address("10.0.0.5"))}
    values["folder"] = Path("/nonexistent")
    values |= {"session": session, "image": image, "server": server, "deadlines": SOON}
    del values["pinning"]
    return InstallRun(
        **{**values, "reports": Reports(told, session.site), "reinstall": frozenset()}
    )


def test_a_dhcp_server_that_nobody_named_is_told_once_with_what_to_do(work: InstallRun, told: Told) -> None:  # fmt: skip
    stranger = "10.0.0.66 02:00:00:00:00:66 10.0.0.99"
    for host in ("gpu-1", "gpu-2"):
        work.reports.take(host, {"state": "written", "seconds": 1, "dhcp": stranger})
    (line,) = [text for text in told.texts if "DHCP" in text]
    assert line.startswith("gpu-1: ")
    assert "10.0.0.66, MAC address 02:00:00:00:00:66; it offers 10.0.0.99" in line
    assert "networks.management.dhcp" in line
    for host in ("gpu-1", "gpu-2"):
        assert "10.0.0.66" in work.reports.strangers(host)[0]


@pytest.mark.parametrize("said", ["none", "unknown", ""])
def test_where_no_server_answers_nothing_is_told(work: InstallRun, told: Told, said: str) -> None:
    work.reports.take("gpu-1", {"state": "written", "seconds": 1, "dhcp": said})
    assert not [text for text in told.texts if "DHCP" in text]
    assert work.reports.strangers("gpu-1") == ()


def test_the_installers_last_word_is_the_host_key(work: InstallRun) -> None:
    work.reports.take("gpu-1", {"state": "installed", "host_key": KEY})
    assert bare_machine._installed(work, "gpu-1") == KEY


def test_a_refusal_is_told_with_its_remedy(work: InstallRun) -> None:
    refused = {"state": "refused", "message": "2 disks could be the system disk", "fix": "name it"}
    work.reports.take("gpu-1", refused)
    with pytest.raises(ApplianceError, match="2 disks") as found:
        bare_machine._installed(work, "gpu-1")
    assert found.value.hint == "name it"


def test_an_installer_that_never_starts_is_told(work: InstallRun) -> None:
    with pytest.raises(DeadlineExceeded, match="did not start within") as found:
        bare_machine._installed(work, "gpu-1")
    assert "https://10.0.0.5:8443" in found.value.hint


def test_one_that_falls_silent_is_told_with_its_last_word(work: InstallRun) -> None:
    work.reports.take("gpu-1", {"state": "writing", "percent": 7})
    with pytest.raises(DeadlineExceeded, match="its last message was: writing the image"):
        bare_machine._installed(work, "gpu-1")


def test_another_hosts_word_is_not_taken_for_its_own(work: InstallRun) -> None:
    work.reports.take("gpu-2", {"state": "installed", "host_key": KEY})
    with pytest.raises(DeadlineExceeded, match="did not start"):
        bare_machine._installed(work, "gpu-1")


def test_an_interrupt_ends_the_wait(work: InstallRun) -> None:
    work.session.cancelled.set()
    with pytest.raises(ApplianceError, match="interrupted"):
        bare_machine._installed(work, "gpu-1")


def test_steps_are_shown_and_not_each_percent(work: InstallRun, told: Told) -> None:
    for said in ({"state": "started"}, {"state": "writing", "percent": 1}, {"state": "writing"}):
        work.reports.take("gpu-1", said)
    assert told.texts == ["gpu-1: its installer runs", "gpu-1: writing the image"]


@pytest.mark.parametrize(
    ("runs", "kind", "said"),
    [
        ("cd" * 32, ApplianceError, "booted from the wrong disk"),
        ("", ApplianceError, "booted from the wrong disk"),
        (
            AnotherKey("host key changed"),
            ApplianceError,
            "differs from the key that its installer created",
        ),
        (ConnectionFailed("refused"), DeadlineExceeded, "did not answer within 0.05 s: refused"),
    ],
)
def test_a_system_that_is_not_the_image_is_told(
    work: InstallRun,
    monkeypatch: pytest.MonkeyPatch,
    runs: str | ApplianceError,
    kind: type[ApplianceError],
    said: str,
) -> None:
    monkeypatch.setattr(bare_machine, "identity", answer(runs))
    with pytest.raises(kind, match=said):
        bare_machine._answers(work, work.session.site.hosts[0])


def test_a_system_that_is_the_image_is_taken(
    work: InstallRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bare_machine, "identity", answer("ab" * 32))
    bare_machine._answers(work, work.session.site.hosts[0])


def answer(runs: str | ApplianceError) -> Callable[[object, str], str]:
    def identity(session: object, host: str) -> str:
        if isinstance(runs, ApplianceError):
            raise runs
        return runs

    return identity


@pytest.mark.parametrize("key", ["", "ssh-ed25519", "a\nb", "ssh-ed25519 AAAA"])
def test_a_key_that_is_none_is_not_pinned(work: InstallRun, key: str) -> None:
    with pytest.raises(ApplianceError, match="reported no host key"):
        bare_machine._pin(work, work.session.site.hosts[0], key)


def test_a_failure_repeats_no_secret(work: InstallRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise ApplianceError("cannot fetch https://10.0.0.5/secret")

    monkeypatch.setattr(bare_machine, "_through", fail)
    monkeypatch.setattr(bare_machine, "Redfish", fail)
    known = cast(Controller, SimpleNamespace(host="gpu-1"))
    found = bare_machine.install(work, known)
    assert found.error
    assert found.error.message == "cannot fetch https://10.0.0.5/..."


def test_a_machine_that_talks_without_end_fills_no_screen(work: InstallRun, told: Told) -> None:
    for number in range(1000):
        dhcp = f"10.0.{number // 250 + 1}.{number % 250 + 1} 02:00:00:00:00:66 10.0.0.99"
        work.reports.take("gpu-1", {"state": f"s{number}", "dhcp": dhcp})
    assert len(told.texts) == bare_machine.MOST_SHOWN
    work.reports.take("gpu-2", {"state": "started"})
    assert told.texts[-1] == "gpu-2: its installer runs"
    last = work.reports.last("gpu-1")
    assert last is not None
    assert last.state == "s999"
    stranger = "10.0.0.66 02:00:00:00:00:67 10.0.0.99"
    work.reports.take("gpu-1", {"state": "s999", "dhcp": stranger})
    work.reports.take("gpu-2", {"state": "started", "dhcp": stranger})
    assert "10.0.0.66" in told.texts[-1]
