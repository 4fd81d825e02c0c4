"""appliance images: what runs as hosts say it, a lock that is written only where it is one image each, and the report's list."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from appliance.actions.kubernetes import images as action
from appliance.adapters.process import Completed
from appliance.cli import options
from appliance.cli.main import cli
from appliance.config import image_lock
from appliance.engine.look.run_record import Findings, record_of
from appliance.engine.look.survey import survey
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.images import Held, ImageLock
from appliance.stages.kubernetes.site import KubernetesOptions
from tests.support.engine_fakes import FakeHosts
from tests.support.engine_session import hosts, recorder, session
from tests.support.facts import facts_of

__all__ = ["hosts", "recorder", "session"]

PROXY, DNS = "registry.k8s.io/kube-proxy:v1.35.2", "registry.k8s.io/coredns:1.12"
ONE, OTHER = (f"sha256:{digit * 64}" for digit in "12")


class Cluster:
    """A control host that says which images run; ``lock``: what the site's folder holds when a verb opens it."""

    def __init__(self, session: Session, hosts: FakeHosts) -> None:
        self.session = session
        self.images = [self.image(PROXY, f"a@{ONE}"), self.image(DNS, OTHER)]
        hosts.answer = self.answer
        known = {"kubernetes": KubernetesOptions.model_validate({"version": "1.35"})}
        object.__setattr__(session, "site", session.site.model_copy(update=known))

    def image(self, name: str, image_id: str, *on: str) -> dict[str, Any]:
        given = {"namespace": "kube-system", "image": name, "id": image_id}
        return {**given, "hosts": on or ("head", "gpu-1", "gpu-2")}

    def answer(self, host: str, argv: Sequence[str]) -> Completed:
        known = {"releases": (), "images": self.images}
        given = {"scheduler": known} if host == "head" else {}
        return Completed(tuple(argv), 0, facts_of(host, **given).model_dump_json(), "")

    @contextmanager
    def opened(self, *_: object, **__: object) -> Iterator[Session]:
        lock, findings = image_lock.read(self.session.folder)
        assert findings == ()
        object.__setattr__(self.session, "lock", lock)
        yield self.session

    @property
    def lock(self) -> ImageLock | None:
        return image_lock.read(self.session.folder)[0]

    def run(self, *argv: str) -> Result:
        words = ["images", *argv, "--site", str(self.session.folder)]
        return CliRunner().invoke(cli, words, standalone_mode=False)


@pytest.fixture
def cluster(session: Session, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster(session, hosts)
    monkeypatch.setattr(action, "open_session", made.opened)
    return made


def test_what_runs_is_shown_and_locked_and_then_held(cluster: Cluster) -> None:
    shown = cluster.run("show")
    assert (shown.return_value, shown.exception) == (0, None)
    assert f"digest {ONE}  on head, gpu-[1-2]; pinned by: nothing" in shown.stdout
    assert f"  · {PROXY}" in shown.stdout
    assert "does not exist yet" in shown.stdout
    done = cluster.run("lock", "--yes")
    assert done.return_value == 0
    assert f"+ {PROXY}  digest {ONE}" in done.stdout
    assert cluster.lock is not None
    assert cluster.lock.images == {PROXY: f"digest {ONE}", DNS: f"id {OTHER}"}
    held = cluster.run("show").stdout
    assert f"  ✓ {PROXY}" in held
    assert "pinned by: images.lock" in held
    again = cluster.run("lock", "--yes")
    assert again.return_value == 0
    assert "nothing to change" in again.stdout


def test_a_change_is_told_line_by_line(cluster: Cluster) -> None:
    cluster.run("lock", "--yes")
    new = "ghcr.io/a/new:1"
    cluster.images = [cluster.image(PROXY, f"a@{OTHER}"), cluster.image(new, f"a@{ONE}", "head")]
    shown = cluster.run("show", "--json")
    assert shown.return_value == 1
    held = {one["image"]: one["held"] for one in json.loads(shown.stdout)["images"]}
    assert held == {PROXY: "differs from images.lock", new: "nothing"}
    done = cluster.run("lock", "--yes", "--json")
    told = json.loads(done.stdout)
    assert Path(told["file"]).name == image_lock.NAME
    assert told["changes"] == [
        {"image": new, "before": "", "after": f"digest {ONE}"},
        {"image": DNS, "before": f"id {OTHER}", "after": ""},
        {"image": PROXY, "before": f"digest {ONE}", "after": f"digest {OTHER}"},
    ]
    assert cluster.run("show").return_value == 0


def test_nothing_is_written_unless_somebody_says_yes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = cluster.run("lock")
    assert isinstance(refused.exception, click.UsageError)
    monkeypatch.setattr(options, "require_answer", lambda *_: None)
    words = ["images", "lock", "--site", str(cluster.session.folder)]
    declined = CliRunner().invoke(cli, words, input="n\n", standalone_mode=False)
    assert declined.return_value == 1
    assert "Nothing was changed" in declined.stdout
    assert cluster.lock is None


@pytest.mark.parametrize("image_id", [f"a@{OTHER}", "", OTHER])
def test_what_is_not_one_image_is_shown_and_never_locked(cluster: Cluster, image_id: str) -> None:
    cluster.images[0] = cluster.image(PROXY, f"a@{ONE}", "head")
    cluster.images.append(cluster.image(PROXY, image_id, "gpu-1"))
    shown = cluster.run("show")
    assert shown.return_value == 1
    assert f"✗ {PROXY}" in shown.stdout
    refused = cluster.run("lock", "--yes")
    assert isinstance(refused.exception, ApplianceError)
    assert PROXY in refused.exception.message
    assert "kubernetes.images" in refused.exception.hint
    assert cluster.lock is None


def test_a_name_with_its_digest_needs_no_lock(cluster: Cluster) -> None:
    cluster.images.append(cluster.image(f"a.b/c:1@{ONE}", f"a.b/c@{ONE}"))
    assert "pinned by: its name" in cluster.run("show").stdout
    cluster.run("lock", "--yes")
    assert cluster.lock is not None
    assert set(cluster.lock.images) == {PROXY, DNS}


def test_a_site_without_a_cluster_of_its_own_or_without_an_answer_is_told_so(
    cluster: Cluster,
) -> None:
    cluster.images = []
    silent = cluster.run("show").exception
    assert isinstance(silent, ApplianceError)
    assert (silent.exit_code, "no running pod" in silent.message) == (1, True)
    external = KubernetesOptions.model_validate({"external": "kubeconfig"})
    for given, says in ((None, "it has no cluster"), (external, "external")):
        site = cluster.session.site.model_copy(update={"kubernetes": given})
        object.__setattr__(cluster.session, "site", site)
        refused = cluster.run("show").exception
        assert isinstance(refused, ConfigError)
        assert says in refused.message


def test_the_record_of_a_run_lists_what_ran(cluster: Cluster) -> None:
    image_lock.write(cluster.session.folder, {PROXY: f"digest {OTHER}"})
    with cluster.opened() as session:
        record = record_of(session, survey(session), Findings())
    assert {one.image: one.held for one in record.images} == {
        PROXY: Held.DIFFERS,
        DNS: Held.NOTHING,
    }
    object.__setattr__(session, "site", session.site.model_copy(update={"kubernetes": None}))
    assert record_of(session, survey(session), Findings()).images == ()


def test_a_control_host_that_does_not_answer_says_why(cluster: Cluster, hosts: FakeHosts) -> None:
    hosts.down = {"head"}
    error = cluster.run("show").exception
    assert isinstance(error, ApplianceError)
    assert (error.host, error.message, error.hint) == ("head", "it does not answer", "power it on")
