"""Accepted token issuers of the API server: its AuthenticationConfiguration (KEP 3331), which it reloads when the file changes."""

from typing import Any

from appliance.stages.kubernetes.site import OidcIssuer
from appliance.stages.kubernetes.variables.releases import Release

SINCE, STABLE = 30, 34
"""Minor releases that have it as v1beta1 and as v1 (Kubernetes changelogs 1.30, 1.34)."""
RESERVED = ("system:", "kubeadm:", "appliance:")
"""Prefixes of names with rights in the cluster; any provider could have a group with the name of administrators."""

Document = dict[str, Any]


def authentication(issuers: tuple[OidcIssuer, ...], chosen: Release) -> Document:
    """The API server's document; empty if only certificates are accepted."""
    if not issuers:
        return {}
    version = "v1" if chosen.minor >= STABLE else "v1beta1"
    return {
        "apiVersion": f"apiserver.config.k8s.io/{version}",
        "kind": "AuthenticationConfiguration",
        "jwt": [_issuer(given) for given in issuers],
    }


def _issuer(given: OidcIssuer) -> Document:
    prefix = given.prefix or ""
    issuer: Document = {"url": given.issuer, "audiences": [given.client_id]}
    if given.ca:
        issuer["certificateAuthority"] = given.ca
    return {
        "issuer": issuer,
        "claimMappings": {
            "username": {"claim": given.username, "prefix": prefix},
            "groups": {"claim": given.groups, "prefix": prefix},
        },
        "userValidationRules": [
            rule
            for word in RESERVED
            for rule in (
                _refused(
                    f"!user.username.startsWith('{word}')", f"a user may not be called {word}"
                ),
                _refused(
                    f"user.groups.all(g, !g.startsWith('{word}'))",
                    f"a group may not be called {word}",
                ),
            )
        ],
    }


def _refused(expression: str, message: str) -> Document:
    return {"expression": expression, "message": message}
