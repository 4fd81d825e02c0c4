"""Members log in on a real API server, by a certificate and by a token: into their own project, and no further."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from appliance.actions.kubernetes import member_kubeconfig
from appliance.adapters import process
from appliance.adapters.kubernetes import KubernetesApi, Ref
from appliance.config.load import LoadedSite, load_site
from appliance.errors import ApplianceError, ClusterFailed
from appliance.stages.kubernetes.site import OidcIssuer
from appliance.stages.kubernetes.variables.oidc import authentication
from appliance.stages.kubernetes.variables.releases import parse
from appliance.stages.queues import changes
from appliance.stages.scheduler.queues.rendered import rendered
from tests.integration import cheat_parts as parts
from tests.integration.api_server import (
    certificate,
    compiled,
    controlled,
    established,
    kubeconfig_of,
    ports,
    running,
    until,
)
from tests.integration.issuer import CLIENT, Issuer, issuing
from tests.support.queue_definitions import definitions, site
from tests.support.tenants import priority

pytestmark = pytest.mark.rack

ALPHA, BETA = "kai-alpha", "kai-beta"
REFUSED, UNKNOWN = 403, 401


@dataclass(frozen=True)
class Place:
    """A cluster with the projects of alice and bob, as its administrator sees it."""

    admin: KubernetesApi
    loaded: LoadedSite
    issuer: Issuer
    folder: Path

    def apply(self, loaded: LoadedSite) -> None:
        wanted = rendered(loaded.site, loaded.profile)
        changes.apply(
            changes.plan(loaded.site, wanted, self.admin), wanted, self.admin, lambda _: None
        )

    def by_token(self, token: str) -> Path:
        port = int(self.admin.server.rpartition(":")[2])
        return kubeconfig_of(self.folder, port, {"token": token}, "of-token")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("members")
    own = folder / "issuer"
    own.mkdir()
    certificate(own)
    loaded = load_site(site(tmp_path_factory.mktemp("site"), "tenants"))
    (port,) = ports(1)
    ca = (own / "cert.pem").read_text()
    told = OidcIssuer(
        issuer=f"https://127.0.0.1:{port}", client_id=CLIENT, username="preferred_username", ca=ca
    )
    # The very document a control plane of the rack's release is given; JSON is YAML, too.
    document = authentication((told,), parse("1.35"))
    (folder / "authentication.yml").write_text(json.dumps(document))
    more = (f"--authentication-config={folder / 'authentication.yml'}",)
    signer = [f"--cluster-signing-{w}-file={folder / w}.pem" for w in ("cert", "key")]
    with (
        issuing(own, port) as issuer,
        running(compiled(), folder, more=more) as kubeconfig,
        controlled(compiled(), kubeconfig, folder, "csrsigning", *signer),
        KubernetesApi(kubeconfig) as admin,
    ):
        for definition in definitions():
            admin.apply(definition)
        for definition in definitions():
            until(partial(established, admin, Ref.of(definition)))
        for name in ("gpu-1", "gpu-2", "gpu-3", "gpu-4"):
            admin.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        for name, value in (("train", 50), ("build", 100), ("urgent", 60)):
            admin.apply(priority(name, value))
        found = Place(admin, loaded, issuer, folder)
        found.apply(loaded)
        yield found


def pods(api: KubernetesApi, namespace: str) -> int:
    """What the server says to a pod that is made there, with nothing made."""
    body = parts.named(parts.pod(), namespace, "mine")
    body["metadata"]["labels"]["kai.scheduler/queue"] = f"{namespace.removeprefix('kai-')}-train"
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    return api.send("POST", path, "make a pod", body, answers=range(400, 500))[0]


def sees(api: KubernetesApi, path: str) -> int:
    return api.send("GET", path, "look", answers=range(400, 500))[0]


def of(place: Place, user: str) -> Path:
    found = member_kubeconfig.issue(place.loaded, place.admin, user, 1)
    assert timedelta(hours=23) < found.until - datetime.now(UTC) < timedelta(hours=25)
    return found.file


def test_each_works_in_his_own_project_and_is_refused_in_the_others(place: Place) -> None:
    with KubernetesApi(of(place, "alice")) as alice, KubernetesApi(of(place, "bob")) as bob:
        assert (pods(alice, ALPHA), pods(alice, BETA)) == (201, REFUSED)
        assert (pods(bob, BETA), pods(bob, ALPHA)) == (201, REFUSED)
        for path in (
            f"/api/v1/namespaces/{BETA}/pods",
            f"/api/v1/namespaces/{ALPHA}/secrets",
            "/api/v1/nodes",
            "/api/v1/pods",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        ):
            assert sees(alice, path) == REFUSED, path
        assert sees(alice, f"/api/v1/namespaces/{ALPHA}/pods") == 200


def test_a_certificate_opens_nothing_once_its_name_is_taken_out(place: Place) -> None:
    """It cannot be called back; what it opens hangs on the name."""
    with KubernetesApi(of(place, "bob")) as bob:
        assert pods(bob, BETA) == 201
        options = place.loaded.site.scheduler
        assert options is not None
        left = tuple(
            p.model_copy(update={"users": tuple(u for u in p.users if u != "bob")})
            for p in options.projects
        )
        changed = options.model_copy(update={"projects": left})
        without = LoadedSite(
            **{
                **vars(place.loaded),
                "site": place.loaded.site.model_copy(update={"scheduler": changed}),
            }
        )
        place.apply(without)
        try:
            until(lambda: pods(bob, BETA) == REFUSED)
            # Still himself to the server, which is why his name may be nobody else's until it expires.
            with pytest.raises(ApplianceError, match="no rights in kai-beta yet"):
                member_kubeconfig.issue(place.loaded, place.admin, "bob", 1)
        finally:
            place.apply(place.loaded)
        until(lambda: pods(bob, BETA) == 201)


def test_a_token_of_the_sites_issuer_is_its_bearers_name(place: Place) -> None:
    token = place.issuer.token(preferred_username="alice", groups=["physics"])
    with KubernetesApi(place.by_token(token)) as alice:
        until(lambda: pods(alice, ALPHA) == 201)
        assert pods(alice, BETA) == REFUSED


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "somebody-else"},
        {"exp": 1_700_000_000},
        {"iss": "https://127.0.0.1:1"},
        {"preferred_username": "system:admin"},
        {"groups": ["system:masters"]},
        {"groups": ["kubeadm:cluster-admins"]},
        {"groups": ["physics", "appliance:admins"]},
    ],
    ids=str,
)
def test_a_token_for_others_or_that_claims_too_much_is_refused(
    place: Place, claims: dict[str, Any]
) -> None:
    good = place.issuer.token(preferred_username="alice")
    with KubernetesApi(place.by_token(good)) as alice:
        until(lambda: pods(alice, ALPHA) == 201)
    token = place.issuer.token(**{"preferred_username": "alice", **claims})
    with KubernetesApi(place.by_token(token)) as other:
        assert sees(other, f"/api/v1/namespaces/{ALPHA}/pods") == UNKNOWN


def test_a_token_signed_by_another_key_is_refused(place: Place, tmp_path: Path) -> None:
    key = tmp_path / "other.pem"
    process.run(("openssl", "genrsa", "-out", str(key), "2048"))
    token = place.issuer.token(key, preferred_username="alice")
    with KubernetesApi(place.by_token(token)) as other:
        assert sees(other, f"/api/v1/namespaces/{ALPHA}/pods") == UNKNOWN


def test_a_cluster_without_a_signer_says_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_kubeconfig, "SIGNER", "example.com/nobody")
    monkeypatch.setattr(member_kubeconfig, "PATIENCE_S", 2.0)
    with pytest.raises((ApplianceError, ClusterFailed), match="did not sign"):
        member_kubeconfig.issue(place.loaded, place.admin, "alice", 1)
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    assert place.admin.send("GET", path, "look")[1]["items"] == []
