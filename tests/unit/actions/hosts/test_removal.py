"""Removing a host: what the site cannot do without stays, work is not ended unasked, and what the old host can open is closed or named."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.actions.deployment.deploy import Deployed
from appliance.actions.hosts import maintenance, removal
from appliance.actions.sites.opening import Target
from appliance.adapters.process import Completed
from appliance.config.load import load_site
from appliance.engine.run import drain as draining
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from tests.support.drain_world import World
from tests.support.engine_fakes import FakeHosts, Recorder
from tests.support.engine_session import hosts, recorder, session
from tests.support.node_site import CLUSTER, SITE

__all__ = ["hosts", "recorder", "session"]

ONE_HEAD = SITE.replace("[control, gpu]", "[login, gpu]")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI"
PINNED = (
    f"gpu-1,10.1.0.11 {KEY}HMtLBKXqVlZ1OpiV3dJSE2xAv9dmgJ1OgPzrIlgVZ0X\n"
    f"both,10.1.0.12 {KEY}FiW+bydDVuHydncCfSOZdOKhBPc/lKrsg8PX+gUUNj1\n"
)


class Bench:
    """A site on disk, schedulers that answer, and a host that obeys or not."""

    def __init__(self, file: Path, world: World, hosts: FakeHosts, session: Session) -> None:
        self.file, self.world, self.hosts, self.session = file, world, hosts, session
        self.deleted: list[str] = []
        self.closed = 0
        self.deployed: tuple[tuple[str, ...], Deployed | None] = (("head",), None)
        self.order: list[str] = []
        self.leaving: list[removal.Leaving] = []
        self.agrees = True
        answered = hosts.answer

        def answer(host: str, argv: Sequence[str]) -> Completed:
            if removal.CLOSE in argv:
                self.order.append("closed")
                return Completed(tuple(argv), self.closed, "", "")
            if "delete" in argv:
                self.deleted.append(argv[-3])
                return Completed(tuple(argv), 0, "", "")
            return answered(host, argv)

        hosts.answer = answer

    def remove(self, name: str = "gpu-1", minutes: float = 0.0, **more: bool) -> removal.Removed:
        def consent(leaving: removal.Leaving) -> bool:
            self.leaving.append(leaving)
            return self.agrees

        return removal.remove_host(
            Target(self.file.parent), name, Recorder(), consent, minutes, **more
        )

    @property
    def pins(self) -> str:
        return (self.file.parent / "known_hosts").read_text()


@pytest.fixture
def bench(
    session: Session, hosts: FakeHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bench:
    file = tmp_path / "site.yml"
    file.write_text(ONE_HEAD)
    (tmp_path / "known_hosts").write_text(PINNED)
    monkeypatch.setenv("A", "x")
    for module in (draining, maintenance):
        monkeypatch.setattr(module, "PAUSE", 0.0)
    made = Bench(file, World(hosts), hosts, session)

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[Session]:
        object.__setattr__(session, "site", load_site(file).site)
        yield session

    def others(*_: object) -> Any:
        made.order.append("others")
        assert "gpu-1" not in file.read_text()
        return made.deployed

    monkeypatch.setattr(removal, "open_session", opened)
    monkeypatch.setattr(removal, "pending", lambda *_: frozenset())
    monkeypatch.setattr(removal, "deploy_others", others)
    return made


def refused(bench: Bench, name: str, *words: str) -> None:
    before = bench.file.read_text()
    with pytest.raises(ConfigError) as caught:
        bench.remove(name)
    assert caught.value.exit_code == 2
    for word in words:
        assert word in f"{caught.value} {caught.value.hint}"
    assert not [argv for _, argv, _ in bench.hosts.calls if "update" in argv]
    assert not bench.leaving
    assert (bench.file.read_text(), bench.pins) == (before, PINNED)


def test_hosts_that_the_site_cannot_do_without_are_refused(bench: Bench) -> None:
    refused(bench, "gpu-9", "gpu-9: no such host")
    refused(bench, "head", "head is the last control host")
    text = ONE_HEAD.replace("[control, storage, login]", "[control]")
    bench.file.write_text(text.replace("[login, gpu]", "[storage, login, gpu]"))
    refused(bench, "both", "both is the last storage host")


def test_a_control_host_of_three_is_refused_because_two_have_no_majority(bench: Bench) -> None:
    text = SITE.replace("roles: [gpu]", "roles: [control, gpu]")
    bench.file.write_text(text)
    refused(bench, "both", "both is one of 3 control hosts", "appliance node replace both")


def test_a_host_that_another_section_names_is_refused_with_its_line(bench: Bench) -> None:
    bench.file.write_text(ONE_HEAD + "mig: {hosts: {gpu-1: all-1g.10gb}}\n")
    refused(bench, "gpu-1", "mig.hosts", "gpu-1")


def test_another_operators_drain_is_refused(bench: Bench) -> None:
    bench.world.reasons["gpu-1"] = "broken fan"
    refused(bench, "gpu-1", "drained by another operator: broken fan")


def test_work_on_a_dead_machine_needs_consent_and_its_keys_are_named(bench: Bench) -> None:
    bench.hosts.down, bench.world.jobs = {"gpu-1"}, ["7 of ada"]
    refused(bench, "gpu-1", "lists work there: job 7 of ada", "--evict")
    done = bench.remove(evict=True)
    assert (done.exit_code, done.rest) == (0, removal.OPEN)
    assert bench.order == ["others"]


def test_work_that_does_not_end_keeps_the_host_in_the_site(bench: Bench) -> None:
    bench.world.jobs = ["7 of ada"]
    with pytest.raises(ApplianceError, match="gpu-1 is not free: job 7 of ada"):
        bench.remove()
    assert bench.world.jobs
    assert "gpu-1" in bench.file.read_text()
    assert bench.order == []


def test_who_declines_changes_nothing(bench: Bench) -> None:
    bench.agrees = False
    assert bench.remove().exit_code == 1
    assert (bench.file.read_text(), bench.pins) == (ONE_HEAD, PINNED)
    assert "-  - name: gpu-1" in bench.leaving[0].difference


def test_its_lines_and_its_pin_go_and_the_others_are_deployed(bench: Bench) -> None:
    lines = "  - name: gpu-1\n    roles: [gpu]\n    address: 10.1.0.11\n"
    assert lines in ONE_HEAD
    done = bench.remove()
    assert bench.file.read_text() == ONE_HEAD.replace(lines, "")
    assert bench.pins == PINNED.split("\n", 1)[1]
    assert bench.order == ["closed", "others"]
    assert (done.exit_code, done.others, done.rest) == (0, ("head",), removal.CLOSED)
    assert bench.session.journal.last(removal.REMOVED, host="gpu-1")


def test_what_could_not_be_closed_is_named(bench: Bench) -> None:
    bench.closed = 1
    assert bench.remove().rest == removal.OPEN


def test_its_node_of_kubernetes_is_deleted(bench: Bench) -> None:
    bench.file.write_text(ONE_HEAD + CLUSTER)
    assert bench.remove().exit_code == 0
    assert bench.deleted == ["gpu-1"]


def test_a_failed_deployment_of_the_others_is_told(bench: Bench) -> None:
    bench.deployed = (("head",), Deployed(None, 1))
    assert bench.remove().exit_code == 1
