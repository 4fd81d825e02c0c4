"""The queues of a deployment: when they are brought, what stands in their way, and what is told."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from appliance.adapters import leftovers
from appliance.adapters.certificates import KeyPair, Signed
from appliance.adapters.kubernetes import KubernetesApi
from appliance.config.load import load_site
from appliance.config.secrets import resolve
from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.look.run_record import Findings
from appliance.engine.plan.selection import Filters, select
from appliance.engine.run import kubeconfig
from appliance.engine.run.cluster_stages import run_cluster_stage, with_cluster
from appliance.engine.run.queues_stage import TOKEN
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.run import StageOutcome, StageState
from appliance.stages.queues.stage import STAGE
from appliance.stages.scheduler.queues.manifest import text
from tests.support.engine_fakes import FakeHosts
from tests.support.engine_session import hosts, recorder, session
from tests.support.fake_kubernetes import serving
from tests.support.impossible_queues import SOUND
from tests.support.queue_world import HOSTS, World

__all__ = ["hosts", "recorder", "session"]

KEY = "  kubernetes_encryption_key: {file: secrets/munge_key}\n"
OWN = f"{KEY}{SOUND}kubernetes: {{}}\n"
QUEUE = "/apis/scheduling.run.ai/v2/queues/lattice-train"
EVERYTHING = Filters()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A site with queues and its cluster, whose control host signs any certificate."""
    folder = tmp_path / "site"
    folder.mkdir()
    with serving() as api:
        found = World(api, folder)
        found.write(OWN)
        made = kubeconfig.Fetched(folder / "kubeconfig", api.url, "root", None)  # type: ignore[arg-type]
        monkeypatch.setattr(kubeconfig, "issue", lambda *_: made)
        yield found


@pytest.fixture
def site(session: Session, world: World) -> Session:
    return _read(session, world)


def _read(session: Session, world: World) -> Session:
    loaded = load_site(world.folder)
    return replace(
        session,
        site=loaded.site,
        profile=loaded.profile,
        folder=loaded.folder,
        secrets={**session.secrets, **resolve(loaded.site, loaded.folder)},
    )


NOBODY_SILENT = Round({}, {})


def _plan(
    session: Session,
    filters: Filters = EVERYTHING,
    *cells: HostStage,
    found: Round = NOBODY_SILENT,
) -> Plan:
    """What the plan says of the queues, after these cells of other stages."""
    names = tuple(host.name for host in session.site.hosts)
    stages = tuple(dict.fromkeys(cell.stage for cell in cells))
    plain = Plan(site="s", profile="hpc", hosts=names, stages=stages, cells=cells)
    selection = select(session.site, filters)
    cluster = tuple(stage for stage in selection.cluster if stage is STAGE)
    return with_cluster(session, found, replace(selection, cluster=cluster), plain)


def _why(session: Session, filters: Filters = EVERYTHING, *cells: HostStage) -> str:
    cells = _plan(session, filters, *cells).by_stage("queues")
    return next(c.why for c in cells if c.host == "head")


def _outcomes(session: Session, plan: Plan, *before: StageOutcome) -> list[StageOutcome]:
    """What becomes of the plan's queues after these outcomes."""
    findings = Findings(outcomes=list(before))
    run_cluster_stage(session, STAGE, plan, findings, lambda: NOBODY_SILENT)
    return findings.outcomes[len(before) :]


def _bring(session: Session, *before: StageOutcome) -> StageOutcome:
    (outcome,) = _outcomes(session, _plan(session), *before)
    return outcome


def test_they_are_brought_once_and_again_when_the_site_has_others(
    site: Session, world: World, hosts: FakeHosts
) -> None:
    assert _why(site) == "not brought yet"
    first = _bring(site)
    assert (first.host, first.state) == ("head", StageState.DONE)
    assert first.changes > 10
    assert QUEUE in world.api.store
    assert [call for call in hosts.calls if call[1] == TOKEN]
    (cell,) = (c for c in _plan(site).by_stage("queues") if c.action is not Action.NOT_CONCERNED)
    assert (cell.host, cell.action, cell.known) == ("head", Action.SKIP, True)
    assert _bring(site).state is StageState.SKIPPED
    world.write(OWN.replace("quota: 16,", "quota: 12,"))
    other = _read(site, world)
    assert _why(other) == "queues changed since the last apply: appliance queue plan"
    assert 0 < _bring(other).changes < 5
    assert _why(other) == ""


def test_another_key_of_the_registry_is_brought_and_kept_nowhere(
    site: Session, world: World
) -> None:
    file = world.folder / "secrets/ngc_api_key"
    file.touch(mode=0o600)
    file.write_text("nvapi-0123456789abcdef")
    world.write(f"  ngc_api_key: {{file: secrets/ngc_api_key}}\n{OWN}")
    _bring(_read(site, world))
    assert _why(_read(site, world)) == ""
    file.write_text("nvapi-another-key-altogether")
    other = _read(site, world)
    assert _why(other) == "the site's secrets have changed"
    # The secret of each project's namespace.
    assert _bring(other).changes == len(other.site.scheduler.projects)  # type: ignore[union-attr]
    assert _why(other) == ""
    assert "nvapi" not in str([entry.data for entry in site.journal.entries()])


def test_what_is_as_it_should_be_is_left_alone(site: Session, hosts: FakeHosts) -> None:
    _bring(site)
    site.journal.append("r2", "host_started", stage="kubernetes", host="head")
    assert _why(site) == "after stage scheduler"
    told = len(hosts.calls)
    again = _bring(site)
    assert (again.state, again.changes) == (StageState.DONE, 0)
    assert len(hosts.calls) == told


def test_a_scheduler_that_is_deployed_asks_for_them_and_so_does_the_user(site: Session) -> None:
    _bring(site)
    cell = HostStage(stage="scheduler", host="head", action=Action.RUN)
    assert _why(site, EVERYTHING, cell) == "after stage scheduler"
    assert _why(site, Filters(full=True)) == "asked for"
    assert _why(site, Filters(stages=("queues",), limit=("gpu-1",))) == "asked for"


@pytest.mark.parametrize(
    "filters", [Filters(limit=("head",)), Filters(stages=("scheduler",)), Filters(until="limits")]
)
def test_a_run_of_a_part_leaves_them(site: Session, filters: Filters) -> None:
    assert _plan(site, filters).stages == ()


def test_a_site_without_queues_has_none_to_bring(session: Session) -> None:
    assert _plan(session).stages == ()
    with pytest.raises(ConfigError, match="--stage queues: stage is not enabled for site acme"):
        select(session.site, Filters(stages=("queues",)))


def test_a_control_host_that_is_silent_is_unknown(site: Session) -> None:
    plan = _plan(site, found=Round({}, {"head": Unanswered("head", "down", "")}))
    assert plan.by_stage("queues")[0].action is Action.UNKNOWN
    assert _outcomes(site, plan) == []


def test_what_stands_in_the_way_is_told_and_nothing_is_changed(site: Session, world: World) -> None:
    for host in HOSTS[:2]:
        del world.api.store[f"/api/v1/nodes/{host}"]
    before = dict(world.api.store)
    outcome = _bring(site)
    assert outcome.state is StageState.FAILED
    assert outcome.cause == "Node gpu-1: the cluster has no such node"
    assert outcome.fix.startswith("let gpu-1 join the cluster")
    assert world.api.store == before
    assert _why(site) == "not brought yet"


def test_a_cluster_that_cannot_be_asked_is_told_with_the_remedy(
    site: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ApplianceError("this host has no cluster yet", "appliance deploy --until kubernetes")

    monkeypatch.setattr(kubeconfig, "issue", refuse)
    outcome = _bring(site)
    assert (outcome.state, outcome.cause) == (StageState.FAILED, "this host has no cluster yet")


def test_its_key_lies_where_the_next_run_finds_what_a_killed_one_left(
    site: Session, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []

    def issue(_remote: object, _site: object, folder: Path, _days: int) -> kubeconfig.Fetched:
        folders.append(folder)
        held = leftovers.mark(site.folder_of_run)
        assert folder.name.startswith(leftovers._prefix(held))
        return kubeconfig.Fetched(world.folder / "kubeconfig", world.api.url, "root", None)  # type: ignore[arg-type]

    monkeypatch.setattr(kubeconfig, "issue", issue)
    assert _bring(site).state is StageState.DONE
    assert [folder.exists() for folder in folders] == [False]


def test_a_gpu_host_that_failed_does_not_hold_them_back(site: Session, world: World) -> None:
    failed = StageOutcome(stage="kubernetes", host="gpu-1", state=StageState.FAILED)
    assert _bring(site, failed).state is StageState.DONE
    assert QUEUE in world.api.store


def test_they_wait_for_the_scheduler(site: Session, world: World) -> None:
    failed = StageOutcome(stage="scheduler", host="head", state=StageState.FAILED)
    outcome = _bring(site, failed)
    assert outcome.state is StageState.NOT_RUN
    assert outcome.why == "stage scheduler must succeed on all hosts first"
    assert QUEUE not in world.api.store


def test_keys_of_a_kubeconfig_lie_in_the_folder_that_is_named(tmp_path: Path) -> None:
    pair = KeyPair.fresh()
    certificate = pair.for_server([IPv4Address("127.0.0.1")], 1)
    signed = Signed(certificate, certificate, datetime.now(UTC))
    document = kubeconfig.document("acme", "https://127.0.0.1:1", "root", pair, signed)
    file, folder = tmp_path / "kubeconfig", tmp_path / "keys"
    folder.mkdir(mode=0o700)
    kubeconfig.write(file, text(document))
    with KubernetesApi(file, keys_in=folder):
        assert pair.pem in {held.read_text() for held in folder.iterdir()}
