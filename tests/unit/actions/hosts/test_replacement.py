"""Replacing a host: what is refused before anything changes, and that it returns to work only if everything is good."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.actions.deployment import plan as planning
from appliance.actions.deployment.deploy import Deployed
from appliance.actions.hosts import maintenance, other_hosts, replacement, trust
from appliance.actions.hosts.trust import Offer
from appliance.actions.sites.opening import Target
from appliance.config.load import load_site
from appliance.engine.plan.selection import Filters
from appliance.engine.run import drain as draining
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.drain import Maintenance
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.result import CheckResult, Kind, Status
from tests.support.drain_world import World
from tests.support.engine_fakes import FakeHosts, Recorder
from tests.support.engine_session import hosts, recorder, session
from tests.support.node_site import SITE

__all__ = ["hosts", "recorder", "session"]

ONE_HEAD = SITE.replace("[control, gpu]", "[login, gpu]")
DONE: Any = object()


class Bench:
    """A site with Slurm, hosts that answer unless they are down, and deployments that are noted."""

    def __init__(self, file: Path, world: World, hosts: FakeHosts) -> None:
        self.file, self.world, self.hosts = file, world, hosts
        self.deployed: list[Filters] = []
        self.codes: list[int] = []
        self.pending: list[frozenset[tuple[str, str]]] = [frozenset()]
        self.failures: tuple[CheckResult, ...] = ()
        self.state = "changed"
        self.asked: list[Any] = []
        self.answers = {"replace": True, "pin": True}

    def replace(self, name: str = "gpu-1", minutes: float = 0.0, **more: bool) -> Any:
        def consent(intent: replacement.Intent) -> bool:
            self.asked.append(intent)
            return self.answers["replace"]

        def may_pin(key: replacement.KeyOffer) -> bool:
            self.asked.append(key)
            return self.answers["pin"]

        target = Target(self.file.parent)
        return replacement.replace_host(target, name, Recorder(), consent, may_pin, minutes, **more)

    @property
    def planned(self) -> Maintenance | None:
        return Maintenance.read(self.world.reasons.get("gpu-1", ""))


@pytest.fixture
def bench(
    session: Session, hosts: FakeHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bench:
    file = tmp_path / "site.yml"
    file.write_text(ONE_HEAD)
    (tmp_path / "known_hosts").write_text("")
    monkeypatch.setenv("A", "x")
    for module in (draining, maintenance, replacement):
        monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setattr(replacement, "SSH_PATIENCE", 0.0)
    monkeypatch.setattr(maintenance, "PATIENCE", 0.0)
    made = Bench(file, World(hosts), hosts)

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[Session]:
        object.__setattr__(session, "site", load_site(file).site)
        yield session

    def deployed(_: object, filters: Filters, *__: object) -> Deployed:
        assert made.planned, "it is not drained"
        made.deployed.append(filters)
        return Deployed(DONE, made.codes.pop(0) if made.codes else 0)

    def planned(*_: object) -> Plan:
        now = made.pending.pop(0) if len(made.pending) > 1 else made.pending[0]
        cells = [HostStage(stage=s, host=h, action=Action.RUN, why="x") for s, h in sorted(now)]
        return Plan(site="acme", profile="hpc", hosts=(), stages=(), cells=tuple(cells))

    def offers(loaded: object, names: tuple[str, ...]) -> Any:
        if made.state == "silent":
            return [], {names[0]: ApplianceError("does not answer", "power it on")}
        return [Offer(names[0], "10.1.0.11", "ssh-ed25519", "AAAA", "SHA256:x", made.state)], {}

    def pin(loaded: object, found: list[Offer], confirm: Any) -> list[Offer]:
        return [one for one in found if confirm(one)]

    monkeypatch.setattr(replacement, "open_session", opened)
    for module in (replacement, other_hosts):
        monkeypatch.setattr(module, "deploy", deployed)
    monkeypatch.setattr(planning, "make", planned)
    monkeypatch.setattr(trust, "offers", offers)
    monkeypatch.setattr(trust, "pin", pin)
    monkeypatch.setattr(replacement, "failures_of", lambda *_: made.failures)
    return made


def refused(bench: Bench, said: str, name: str = "gpu-1") -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        bench.replace(name)
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message + caught.value.hint
    assert not [argv for _, argv, _ in bench.hosts.calls if "update" in argv]
    assert not bench.asked
    assert not bench.deployed


@pytest.mark.parametrize(
    ("name", "said"),
    [("gpu-9", "gpu-9: no such host"), ("head", "head is a storage host")],
)
def test_hosts_that_the_site_cannot_lose_are_refused(name: str, said: str, bench: Bench) -> None:
    refused(bench, said, name)


def test_the_only_control_host_is_refused(bench: Bench) -> None:
    text = ONE_HEAD.replace("[control, storage, login]", "[control]")
    bench.file.write_text(text.replace("[login, gpu]", "[storage, login, gpu]"))
    refused(bench, "head is the only control host", "head")


def test_another_operators_drain_is_refused(bench: Bench) -> None:
    bench.world.reasons["gpu-1"] = "broken fan"
    refused(bench, "drained by another operator: broken fan")


def test_work_on_a_machine_that_does_not_answer_needs_consent(bench: Bench) -> None:
    bench.hosts.down = {"gpu-1"}
    bench.world.jobs = ["7 of ada"]
    refused(bench, "does not answer .* lists work there: job 7 of ada")
    done = bench.replace(evict=True, minutes=60)
    assert done.exit_code == 0
    assert bench.world.jobs == []


def test_who_declines_changes_nothing(bench: Bench) -> None:
    bench.answers["replace"] = False
    assert bench.replace().exit_code == 1
    assert not bench.planned
    assert not bench.deployed


def test_work_that_does_not_end_stops_it_and_the_host_stays_drained(bench: Bench) -> None:
    bench.world.jobs = ["7 of ada"]
    with pytest.raises(ApplianceError, match="gpu-1 is not free: job 7 of ada") as caught:
        bench.replace()
    assert "appliance node return gpu-1" in caught.value.hint
    assert bench.planned
    assert bench.world.jobs
    assert not bench.deployed


def test_it_is_drained_trusted_deployed_and_returned(bench: Bench) -> None:
    done = bench.replace()
    assert done.exit_code == 0
    assert done.is_new_key
    assert bench.deployed == [Filters(limit=("gpu-1",), accept_facts=("gpu-1",))]
    assert bench.world.reasons["gpu-1"] == ""
    assert done.returned.works
    assert isinstance(bench.asked[1], replacement.KeyOffer)


def test_a_key_that_nobody_accepts_deploys_nothing(bench: Bench) -> None:
    bench.answers["pin"] = False
    assert bench.replace().exit_code == 1
    assert bench.planned
    assert not bench.deployed


def test_the_same_key_is_not_asked_about(bench: Bench) -> None:
    bench.state = "pinned"
    done = bench.replace()
    assert (done.exit_code, done.is_new_key, len(bench.asked)) == (0, False, 1)


def test_a_machine_without_a_system_is_named_with_the_next_step(bench: Bench) -> None:
    bench.state = "silent"
    with pytest.raises(ApplianceError, match="gpu-1: does not answer") as caught:
        bench.replace()
    assert "install its system, then run the same command again" in caught.value.hint
    assert bench.planned


def test_a_failed_deployment_or_a_failed_check_keeps_it_out_of_work(bench: Bench) -> None:
    bench.codes = [1]
    assert bench.replace().exit_code == 1
    assert bench.planned
    bench.failures = (
        CheckResult(id="gpu.count", target="gpu-1", host="gpu-1", status=Status.FAIL),
    )
    done = bench.replace()
    assert (done.exit_code, done.failures) == (1, bench.failures)
    assert bench.planned
    bench.failures = ()
    assert bench.replace().exit_code == 0


def test_other_hosts_get_what_it_changes_and_nothing_that_was_pending_before(bench: Bench) -> None:
    mine, theirs = ("fabric", "head"), ("observe", "both")
    bench.pending = [frozenset({theirs}), frozenset({mine, theirs, ("base", "gpu-1")})]
    done = bench.replace()
    assert done.others == ("head",)
    assert bench.deployed[1] == Filters(limit=("head",), stages=("fabric",))


def test_a_failure_on_another_host_keeps_it_out_of_work(bench: Bench) -> None:
    bench.pending, bench.codes = [frozenset(), frozenset({("fabric", "head")})], [0, 1]
    assert bench.replace().exit_code == 1
    assert bench.planned


@pytest.mark.parametrize(
    ("status", "host", "kind", "counts"),
    [
        (Status.FAIL, "gpu-1", Kind.OTHER, True),
        (Status.ERROR, "gpu-1", Kind.OTHER, True),
        (Status.WARN, "gpu-1", Kind.OTHER, False),
        (Status.FAIL, "gpu-2", Kind.OTHER, False),
        (Status.NOT_ASSESSED, "gpu-1", Kind.MAINTENANCE, False),
    ],
)
def test_only_its_own_failures_count(status: Status, host: str, kind: Kind, counts: bool) -> None:
    one = CheckResult(id="gpu.count", target=host, host=host, status=status, kind=kind)
    assert other_hosts.is_against(one, "gpu-1") is counts


def test_the_pinned_fingerprint_is_shown_as_ssh_keygen_does(bench: Bench, tmp_path: Path) -> None:
    from appliance.adapters.process import run

    key = tmp_path / "key"
    run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)))
    public = Path(f"{key}.pub").read_text().split()[:2]
    (tmp_path / "known_hosts").write_text(f"gpu-1,10.1.0.11 {' '.join(public)}\n")
    shown = run(("ssh-keygen", "-lf", f"{key}.pub")).stdout.split()[1]
    assert replacement.pinned_fingerprints(load_site(bench.file), "gpu-1") == (shown,)
