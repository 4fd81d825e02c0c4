"""What the API server is told of a site's OpenID Connect provider."""

from typing import Any

import pytest

from appliance.stages.kubernetes.site import OidcIssuer
from appliance.stages.kubernetes.variables.oidc import RESERVED, authentication
from appliance.stages.kubernetes.variables.releases import parse
from tests.support.kubernetes_variables import of, site

ISSUER = OidcIssuer(issuer="https://sso.example.com/realms/hpc", client_id="kubernetes")


@pytest.mark.parametrize(("release", "version"), [("1.33", "v1beta1"), ("1.35", "v1")])
def test_the_document_is_of_the_version_the_release_reads(release: str, version: str) -> None:
    found = authentication((ISSUER,), parse(release))
    assert found["apiVersion"] == f"apiserver.config.k8s.io/{version}"
    (jwt,) = found["jwt"]
    assert jwt["issuer"] == {"url": ISSUER.issuer, "audiences": ["kubernetes"]}
    assert jwt["claimMappings"]["username"] == {"claim": "email", "prefix": ""}


def test_no_provider_can_name_an_administrator() -> None:
    (jwt,) = authentication((ISSUER,), parse("1.35"))["jwt"]
    said = " ".join(rule["expression"] for rule in jwt["userValidationRules"])
    assert RESERVED == ("system:", "kubeadm:", "appliance:")
    assert all(said.count(f"'{word}'") == 2 for word in RESERVED)


def test_only_a_site_that_names_an_issuer_changes_its_control_plane() -> None:
    def arguments(given: dict[str, Any]) -> list[str]:
        (cluster,) = (d for d in given["kubernetes_kubeadm"] if d["kind"] == "ClusterConfiguration")
        return [a["name"] for a in cluster["apiServer"]["extraArgs"]]

    plain = of("head-1", site(version="1.35"))
    asked = of("head-1", site(version="1.35", oidc=[ISSUER.model_dump()]))
    assert plain["kubernetes_authentication"] == {}
    assert asked["kubernetes_authentication"] == authentication((ISSUER,), parse("1.35"))
    assert "authentication-config" not in arguments(plain)
    assert "authentication-config" in arguments(asked)
    assert (
        of("gpu-1", site(version="1.35", oidc=[ISSUER.model_dump()]))["kubernetes_authentication"]
        == {}
    )
