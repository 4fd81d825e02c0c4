"""A member's kubeconfig: who gets one, what is asked of the cluster, and what is left there."""

import json
from base64 import b64decode, b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from appliance.actions.kubernetes import member_kubeconfig
from appliance.adapters.kubernetes import Ref, Resource
from appliance.cli.main import cli
from appliance.config.document import read
from appliance.config.load import LoadedSite, load_site
from appliance.errors import ApplianceError, ConfigError
from tests.support.authority import Authority
from tests.support.rendered_queues import make

USER = "alice"


class Desk:
    """A cluster whose controller signs what was approved, after a look or two."""

    server = "https://10.1.0.10:6443"

    def __init__(self, *bound: str, conditions: list[dict[str, str]] | None = None) -> None:
        self._authority = Authority()
        self._bound, self._conditions = bound, conditions
        self.there: dict[str, Resource] = {}
        self.asked: list[Resource] = []
        self._looks = 0

    @property
    def authority(self) -> str:
        return self._authority.pem

    def get(self, ref: Ref) -> Resource | None:
        if ref.kind == "RoleBinding":
            bound = ref.namespace in self._bound
            return {"subjects": [{"kind": "User", "name": USER}]} if bound else None
        found = self.there.get(ref.name)
        self._looks += 1
        if found and found.get("approved") and self._looks > 2:
            asked = b64decode(found["spec"]["request"]).decode()
            days = found["spec"]["expirationSeconds"] // 86400
            signed = self._authority.sign(asked, days)
            status: dict[str, Any] = {"certificate": b64encode(signed.encode()).decode()}
            if self._conditions is not None:
                status = {"conditions": self._conditions}
            return {**found, "status": status}
        return found

    def apply(self, resource: Resource) -> Resource:
        self.asked.append(resource)
        self.there[resource["metadata"]["name"]] = dict(resource)
        return resource

    def send(
        self, method: str, path: str, doing: str, body: Resource | None = None
    ) -> tuple[int, Resource]:
        assert (method, path.endswith("/approval"), USER in doing) == ("PUT", True, True)
        assert body is not None
        self.there[body["metadata"]["name"]]["approved"] = True
        return 200, body

    def delete(self, ref: Ref) -> None:
        del self.there[ref.name]


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedSite:
    make(tmp_path, "tenants")
    return load_site(tmp_path)


def issued(
    loaded: LoadedSite, desk: Desk, user: str = USER, days: int = 7
) -> member_kubeconfig.Member:
    return member_kubeconfig.issue(loaded, desk, user, days, lambda _: None)


def test_the_certificate_names_the_member_and_no_group(loaded: LoadedSite) -> None:
    desk = Desk("kai-alpha", "kai-fabric")
    found = issued(loaded, desk)
    assert (found.file.name, found.namespaces) == (
        f"kubeconfig-{USER}",
        ("kai-alpha", "kai-fabric"),
    )
    assert found.file.stat().st_mode & 0o777 == 0o600
    document: Any = read(found.file).data
    context, _ = document["contexts"]
    assert context["context"]["namespace"] == "kai-alpha"
    assert document["current-context"] == context["name"]
    own = b64decode(document["users"][0]["user"]["client-certificate-data"]).decode()
    assert Authority.names(own) == {USER}
    spec = desk.asked[0]["spec"]
    assert spec["expirationSeconds"] == 7 * 86400
    assert (spec["signerName"], spec["usages"]) == (member_kubeconfig.SIGNER, ["client auth"])
    assert "PRIVATE KEY" not in b64decode(spec["request"]).decode()
    assert desk.there == {}, "the request is taken away"


def test_who_is_no_member_is_refused_before_the_cluster_is_asked(loaded: LoadedSite) -> None:
    desk = Desk("kai-alpha", "kai-beta")
    with pytest.raises(
        ConfigError, match="mallory is not listed as a user of any project"
    ) as refused:
        issued(loaded, desk, "mallory")
    assert "projects[].users" in refused.value.hint
    assert desk.asked == []


def test_with_run_ai_no_certificate_is_issued(loaded: LoadedSite) -> None:
    scheduler = loaded.site.scheduler
    assert scheduler
    options = scheduler.model_copy(update={"kind": "runai"})
    site = loaded.site.model_copy(update={"scheduler": options})
    desk = Desk()
    with pytest.raises(ConfigError, match="Run:ai grants alice rights") as refused:
        issued(replace(loaded, site=site), desk)
    assert "docs/runai.md" in refused.value.hint
    assert desk.asked == []


def test_a_name_no_certificate_takes_is_refused(loaded: LoadedSite) -> None:
    assert loaded.site.scheduler is not None
    name = "a" * 65
    own = loaded.site.scheduler.projects[0].model_copy(update={"users": (name,)})
    options = loaded.site.scheduler.model_copy(update={"projects": (own,)})
    longer = replace(loaded, site=loaded.site.model_copy(update={"scheduler": options}))
    with pytest.raises(ConfigError, match="a certificate supports at most 64"):
        issued(longer, Desk("kai-alpha", "kai-fabric"), name)


def test_a_member_whom_the_cluster_does_not_know_yet_gets_no_certificate(
    loaded: LoadedSite,
) -> None:
    desk = Desk()
    with pytest.raises(ApplianceError, match="no rights in kai-alpha yet") as refused:
        issued(loaded, desk)
    assert refused.value.hint == "appliance queue apply"
    assert desk.asked == []


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ([{"type": "Denied", "message": "not today"}], "not today"),
        ([{"type": "Failed", "message": "no key"}], "no key"),
        ([], "did not sign the certificate"),
    ],
)
def test_a_cluster_that_signs_nothing_says_why_and_keeps_nothing(
    loaded: LoadedSite, conditions: list[dict[str, str]], said: str
) -> None:
    desk = Desk("kai-alpha", "kai-fabric", conditions=conditions)
    with pytest.raises(ApplianceError, match=said):
        issued(loaded, desk)
    assert desk.there == {}
    assert not list(loaded.folder.glob("kubeconfig-*"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--user", USER, "--days", "31"), "use at most 30"),
        (("--kubeconfig", "x"), "also give --user"),
    ],
)
def test_what_makes_no_sense_is_refused(
    loaded: LoadedSite, words: tuple[str, ...], said: str
) -> None:
    done = CliRunner().invoke(cli, ["kubeconfig", "--site", str(loaded.folder), *words])
    assert (done.exit_code, said in done.output) == (2, True), done.output


def test_the_command_writes_one_object(loaded: LoadedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk("kai-alpha", "kai-fabric")

    class Door:
        def __init__(self, _: Path) -> None: ...
        def __enter__(self) -> Desk:
            return desk

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr("appliance.cli.kubeconfig.KubernetesApi", Door)
    monkeypatch.setattr("appliance.actions.kubernetes.member_kubeconfig.time.sleep", lambda _: None)
    words = ["kubeconfig", "--site", str(loaded.folder), "--user", USER]
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["user"], found["namespaces"]) == (USER, ["kai-alpha", "kai-fabric"])
    assert "kai-alpha, kai-fabric until" in CliRunner().invoke(cli, words).output
