"""Stage runai in a deployment: when it runs, how Helm is started, and what its failure says."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.ansible import HostPlay, Play
from appliance.config.data import root
from appliance.config.load import load_site
from appliance.config.secrets import resolve
from appliance.engine.look.gather import Round
from appliance.engine.run import runai_client, runai_stage
from appliance.engine.run.runai_install import Installed
from appliance.engine.session import Session
from appliance.errors import ClusterFailed, ConfigError
from appliance.journal import Entry
from appliance.models.plan import Plan
from appliance.models.run import StageState
from appliance.stages.catalog import CLUSTER_STAGES
from appliance.stages.runai.registration import Account
from appliance.stages.runai.stage import STAGE
from appliance.stages.runai.values import wanted
from tests.support.engine_session import hosts, recorder, session
from tests.support.runai.site import Authorities, private, write_site

__all__ = ["hosts", "recorder", "session"]

NOTHING = Round({}, {})
NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "acme"
    made.mkdir()
    write_site(made, Authorities.fresh())
    return made


@pytest.fixture
def site(session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    return read(session, folder)


def read(session: Session, folder: Path) -> Session:
    """The session with the site of this folder."""
    loaded = load_site(folder)
    return replace(
        session,
        site=loaded.site,
        profile=loaded.profile,
        folder=folder,
        data=root(),
        secrets=resolve(loaded.site, folder),
    )


def why(session: Session, data: Mapping[str, Any] | None, asked: bool = False) -> str:
    """Why it runs after a receipt with this content."""
    plan = Plan(site="s", profile="hpc", hosts=(), stages=(), cells=())
    last = (
        None if data is None else Entry(1, NOW, "r", STAGE.receipt, STAGE.name, "head", dict(data))
    )
    return runai_stage.why(session, NOTHING, plan, last, asked)


def brought(session: Session, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Any]:
    """The receipt of a run in which all steps succeed."""
    monkeypatch.setattr(runai_stage, "install", lambda _: Installed("uid", "3.0.20"))
    monkeypatch.setattr(runai_stage, "own_cluster", no_cluster)
    done = runai_stage.run(session, ["head"], lambda: NOTHING)
    assert done.state is StageState.DONE, done.cause
    assert done.receipt is not None
    return done.receipt


@contextmanager
def no_cluster(session: Session) -> Iterator[Any]:
    """A cluster that no step asks."""
    yield type("Nothing", (), {})()


def test_it_comes_after_the_storage_and_before_the_queues(site: Session) -> None:
    names = [stage.name for stage in CLUSTER_STAGES]
    assert names.index("runai") < names.index("queues")
    assert "workloads" in STAGE.after
    assert wanted(site.site)


def test_it_runs_once_and_again_for_a_change(
    site: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert why(site, None) == "not installed yet"
    receipt = brought(site, monkeypatch)
    assert (receipt["cluster"], receipt["version"]) == ("uid", "3.0.20")
    assert why(site, receipt) == ""
    assert why(site, receipt, asked=True) == "asked for"
    private(folder / "secrets/runai_keycloak_password", "another")
    assert why(read(site, folder), receipt) == "the site's secrets have changed"
    text = (folder / "site.yml").read_text()
    (folder / "site.yml").write_text(text.replace("storage_class: nfs", "ingress_class: nginx"))
    assert why(read(site, folder), receipt) == "its values or certificates have changed"


def test_a_receipt_has_no_secret(site: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    said = str(brought(site, monkeypatch))
    assert not [name for name, value in site.secrets.items() if str(value) in said]


def test_the_service_account_is_stored_once_for_root_alone(site: Session) -> None:
    store = runai_client.keep(site)
    assert store is not None
    (site.folder / "secrets").mkdir(exist_ok=True)
    store(Account("appliance-7", "hidden"))
    file = site.folder / runai_client.FILE
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("hidden", 0o600)
    assert runai_client.keep(site) is None
    assert runai_client.connect(site)


def test_a_secret_that_cannot_be_stored_is_one_line(site: Session) -> None:
    store = runai_client.keep(replace(site, folder=site.folder / "site.yml"))
    assert store is not None
    with pytest.raises(ConfigError, match="cannot be written") as refused:
        store(Account("appliance-7", "hidden"))
    assert "appliance deploy --stage runai" in refused.value.hint


def attempted(
    session: Session, monkeypatch: pytest.MonkeyPatch, result: HostPlay
) -> Mapping[str, object]:
    """What role scheduler gets for one release."""
    asked: list[Play] = []

    def played(request: Play, *_: object) -> dict[str, HostPlay]:
        asked.append(request)
        return {"head": result}

    monkeypatch.setattr(runai_stage, "play", played)
    runai_stage._helm(session, "head", {"name": "runai-backend"}, 1200)
    (request,) = asked
    assert request.playbook.name == "scheduler.yml"
    return request.hosts["head"]


def test_helm_is_role_schedulers(site: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    given = attempted(site, monkeypatch, HostPlay("head", tasks=1, finished=True))
    assert given["scheduler_first"] is True
    assert given["scheduler_releases"] == [{"name": "runai-backend"}]
    assert given["scheduler_wait_s"] == 1200


def test_a_failed_attempt_says_why_without_a_secret(
    site: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = f"claim data is not bound; {site.secrets['runai_keycloak_password']}"
    failed = HostPlay("head", failed_task="service", message=message)
    with pytest.raises(ClusterFailed) as error:
        attempted(site, monkeypatch, failed)
    assert error.value.message == "claim data is not bound; ***"
    assert error.value.hint == "correct it, then run appliance deploy --stage runai"
