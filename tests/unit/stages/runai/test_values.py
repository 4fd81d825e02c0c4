"""What is installed of Run:ai: the charts' values under their documented names, and the secrets that it finds by name."""

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from appliance.config.load import load_site
from appliance.config.secrets import resolve
from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.runai import objects, releases, values
from tests.support.runai.site import PASSWORD, SITE, Authorities, write_site

CONTROL_PLANE = {
    "global.domain",
    "global.ingress.ingressClass",
    "global.ingress.tlsSecretName",
    "global.customCA.enabled",
    "global.postgresql.auth.password",
    "global.postgresql.auth.postgresPassword",
    "global.keycloakExternalEndpoint",
    "clusterService.keycloakExternalEndpoint",
    "keycloakx.adminUser",
    "keycloakx.adminPassword",
    "keycloakx.extraEnv",
    "postgresql.primary.initdb.password",
    "postgresql.primary.persistence.storageClass",
    "thanos.receive.persistence.storageClass",
    "tenantsManager.config.adminUsername",
    "tenantsManager.config.adminPassword",
    "supportEntitled",
}
"""Names of the control plane's chart: 3.0, "install the control plane" and "configuration templates"; 2.25, "control plane config"."""
CLUSTER = {
    "controlPlane.url",
    "controlPlane.bootstrapToken",
    "cluster.uid",
    "cluster.url",
    "global.customCA.enabled",
    "global.additionalImagePullSecrets",
    "researcherService.ingress.tlsSecret",
    "clusterConfig.global.ingress.ingressClass",
    "clusterConfig.global.subdomainSupport",
}
"""Names of the cluster's chart: 3.0, "install the cluster"; 2.25, "cluster config"."""
SECRETS = {
    ("runai-backend", "runai-backend-tls"): {"tls.crt", "tls.key"},
    ("runai-backend", "runai-ca-cert"): {"runai-ca.pem"},
    ("runai", "runai-cluster-domain-tls-secret"): {"tls.crt", "tls.key"},
    ("runai", "runai-cluster-domain-star-tls-secret"): {"tls.crt", "tls.key"},
    ("knative-serving", "runai-cluster-inference-tls-secret"): {"tls.crt", "tls.key"},
    ("runai", "runai-ca-cert"): {"runai-ca.pem"},
    ("runai-backend", "runai-reg-creds"): {".dockerconfigjson"},
    ("runai", "runai-reg-creds"): {".dockerconfigjson"},
}
"""The documented names, and what each contains (3.0, "preparations")."""

Loaded = tuple[Site, Profile, Path]


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loaded:
    """A site that installs Run:ai; no release accepts it yet."""
    return load(tmp_path, monkeypatch)


def load(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str = SITE) -> Loaded:
    """The same with another text."""
    write_site(folder, Authorities.fresh(), text)
    found = load_site(folder)
    return found.site, found.profile, folder


def names(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Paths of all values."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from names(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def at(tree: Any, path: str) -> Any:
    """The value of a path."""
    for key in path.split("."):
        tree = tree[key]
    return tree


def files(loaded: Loaded) -> objects.Files:
    return {name: (loaded[2] / name).read_text() for name in objects.files_of(loaded[0])}


def test_every_value_has_a_documented_name(loaded: Loaded) -> None:
    site, profile, folder = loaded
    given = releases.control_plane(site, profile).values
    whole = values.merged(given, values.secret_values(resolve(site, folder)))
    other = {"global.keycloakExternalEndpoint", "clusterService.keycloakExternalEndpoint"}
    assert set(names(whole)) == CONTROL_PLANE - other - {"keycloakx.extraEnv"}
    engine = values.registered(releases.cluster(site, profile).values, "uid", "token")
    assert set(names(engine)) == CLUSTER


def test_the_values_are_those_of_the_site(loaded: Loaded) -> None:
    site, profile, folder = loaded
    given = releases.control_plane(site, profile).values
    whole = values.merged(given, values.secret_values(resolve(site, folder)))
    assert at(whole, "global.domain") == "runai.example.com"
    assert at(whole, "global.ingress") == {
        "ingressClass": "haproxy",
        "tlsSecretName": "runai-backend-tls",
    }
    assert at(whole, "tenantsManager.config") == {
        "adminUsername": "admin@example.com",
        "adminPassword": PASSWORD,
    }
    assert at(whole, "postgresql.primary.persistence.storageClass") == "nfs"
    assert at(whole, "keycloakx.adminPassword") == "runai_keycloak_password-value"
    engine = values.registered(releases.cluster(site, profile).values, "u", "t")
    assert engine["controlPlane"] == {"url": "https://runai.example.com", "bootstrapToken": "t"}
    assert engine["cluster"] == {"url": "https://runai.example.com", "uid": "u"}


def test_what_is_shown_and_stored_has_no_secret(loaded: Loaded) -> None:
    site, profile, folder = loaded
    shown = json.dumps(
        [releases.control_plane(site, profile).values, list(objects.namespaces(site))]
    )
    shown += json.dumps(releases.cluster(site, profile).values)
    for secret in resolve(site, folder).values():
        assert str(secret) not in shown


def test_another_port_is_part_of_every_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SITE.replace("      storage_class: nfs\n", "      port: 30443\n")
    site, profile, _ = load(tmp_path, monkeypatch, text)
    given = releases.control_plane(site, profile).values
    assert set(names(given)) <= CONTROL_PLANE
    url = "https://runai.example.com:30443"
    assert at(given, "global.keycloakExternalEndpoint") == f"{url}/auth"
    assert f"value: {url}/auth" in at(given, "keycloakx.extraEnv")
    engine = releases.cluster(site, profile).values
    assert (engine["controlPlane"]["url"], engine["cluster"]["url"]) == (url, url)


def test_both_editions(loaded: Loaded) -> None:
    site, profile, folder = loaded
    secrets = resolve(site, folder)
    entitled = releases.control_plane(site, profile)
    made = releases.as_installed(site, entitled, entitled.values, secrets)
    assert made["repository"] == "https://helm.ngc.nvidia.com/nvidia/runai"
    assert made["login"] == ["$oauthtoken", "ngc_api_key-value"]
    opened = edition(site, "open")
    release = releases.control_plane(opened, profile)
    assert "supportEntitled" not in release.values
    assert "global" in release.values
    made = releases.as_installed(opened, release, release.values, {})
    assert (made["repository"], made["login"]) == (
        "https://helm.ngc.nvidia.com/nvidia/runai-oss",
        [],
    )
    found = {item["metadata"]["name"] for item in objects.secrets(opened, files(loaded), secrets)}
    assert "runai-reg-creds" not in found
    assert "additionalImagePullSecrets" not in releases.cluster(opened, profile).values["global"]


def edition(site: Site, name: str) -> Site:
    """The same site with another edition."""
    assert site.scheduler is not None
    assert site.scheduler.runai is not None
    runai = site.scheduler.runai.model_copy(update={"edition": name})
    return site.model_copy(update={"scheduler": site.scheduler.model_copy(update={"runai": runai})})


def test_releases_stay_as_they_failed_and_hooks_are_cleared(loaded: Loaded) -> None:
    site, profile, folder = loaded
    secrets = resolve(site, folder)
    for release, name, place, jobs in (
        (releases.control_plane(site, profile), "runai-backend", "runai-backend", []),
        (releases.cluster(site, profile), "runai-cluster", "runai", ["pre-install", "pre-delete"]),
    ):
        made = releases.as_installed(site, release, {}, secrets)
        assert (made["name"], made["namespace"], made["version"]) == (name, place, "3.0.20")
        assert (made["rolls_back"], made["jobs"]) == (False, jobs)


def test_a_site_may_name_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SITE.replace("      storage_class: nfs\n", "      version: 3.0.21\n")
    site, profile, _ = load(tmp_path, monkeypatch, text)
    made = (releases.control_plane(site, profile), releases.cluster(site, profile))
    assert [release.version for release in made] == ["3.0.21", "3.0.21"]


def test_secrets_have_their_documented_names(loaded: Loaded) -> None:
    site, _, folder = loaded
    found = objects.secrets(site, files(loaded), resolve(site, folder))
    made = {
        (item["metadata"]["namespace"], item["metadata"]["name"]): set(item["data"])
        for item in found
    }
    assert made == SECRETS
    (cluster_wide,) = [
        item["metadata"]["labels"]
        for item in found
        if (item["metadata"]["namespace"], item["metadata"]["name"]) == ("runai", "runai-ca-cert")
    ]
    assert cluster_wide["run.ai/cluster-wide"] == "true"
    assert cluster_wide["run.ai/name"] == "runai-ca-cert"


def test_secrets_hold_the_sites_files(loaded: Loaded) -> None:
    site, _, folder = loaded
    secrets = resolve(site, folder)
    found = {
        (item["metadata"]["namespace"], item["metadata"]["name"]): item["data"]
        for item in objects.secrets(site, files(loaded), secrets)
    }
    tls = found["runai-backend", "runai-backend-tls"]
    assert base64.b64decode(tls["tls.crt"]).decode() == (folder / "tls/runai.pem").read_text()
    assert base64.b64decode(tls["tls.key"]).decode().strip() == secrets["runai_tls_key"]
    login = json.loads(
        base64.b64decode(found["runai", "runai-reg-creds"][".dockerconfigjson"]).decode()
    )
    assert login["auths"]["nvcr.io"]["username"] == "$oauthtoken"
    assert login["auths"]["nvcr.io"]["password"] == "ngc_api_key-value"


def test_namespaces_of_secrets_are_made_before_them(loaded: Loaded) -> None:
    site, _, folder = loaded
    made = [item["metadata"]["name"] for item in objects.namespaces(site)]
    used = {
        item["metadata"]["namespace"]
        for item in objects.secrets(site, files(loaded), resolve(site, folder))
    }
    assert made == ["runai-backend", "runai", "knative-serving"]
    assert used == set(made)
    for item in objects.namespaces(site):
        assert item["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
