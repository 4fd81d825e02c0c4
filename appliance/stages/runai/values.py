"""Values of Run:ai's two charts. Names: NVIDIA Run:ai self-hosted 3.0, pages of "manual Helm"; 2.25 where 3.0's page names no value.

Passwords and tokens are laid over them by ``secret_values`` and ``registered``, so that nothing that is shown or stored has one.
"""

from collections.abc import Mapping
from copy import deepcopy

from appliance.config.secrets import Secrets
from appliance.models.site import Site
from appliance.stages.scheduler import stage as scheduler
from appliance.stages.scheduler.queues.manifest import Manifest
from appliance.stages.scheduler.site import HTTPS, RunaiInstall, RunaiOptions

ADMIN_PASSWORD = "runai_admin_password"
DATABASE_PASSWORD = "runai_database_password"
KEYCLOAK_PASSWORD = "runai_keycloak_password"
TLS_KEY = "runai_tls_key"
INFERENCE_KEY = "runai_inference_tls_key"
NEEDED = (ADMIN_PASSWORD, DATABASE_PASSWORD, KEYCLOAK_PASSWORD, TLS_KEY)
"""Secrets of the site that an installation needs."""
KEYCLOAK_ADMIN = "admin"

TLS = "runai-backend-tls"
CLUSTER_TLS = "runai-cluster-domain-tls-secret"
CA = "runai-ca-cert"
PULL_SECRET = "runai-reg-creds"


def wanted(site: Site) -> bool:
    """Whether the site installs Run:ai on its own cluster."""
    runai = site.scheduler.runai if site.scheduler else None
    return runai is not None and runai.install is not None and scheduler.wanted(site)


def options_of(site: Site) -> tuple[RunaiOptions, RunaiInstall]:
    """Return the site's sections; only for a site that installs Run:ai."""
    options = site.scheduler.runai if site.scheduler else None
    assert options is not None
    assert options.install is not None
    return options, options.install


def control_plane(site: Site) -> Manifest:
    """Chart control-plane, without passwords."""
    options, install = options_of(site)
    values: Manifest = {
        "global": {
            "domain": options.host,
            "ingress": {"ingressClass": install.ingress_class, "tlsSecretName": TLS},
            **_authority(options),
        },
        "tenantsManager": {"config": {"adminUsername": install.admin}},
    }
    if options.edition == "entitled":
        values["supportEntitled"] = True
    if install.storage_class is not None:
        storage = {"persistence": {"storageClass": install.storage_class}}
        values["postgresql"] = {"primary": storage}
        values["thanos"] = {"receive": storage}
    return merged(values, _other_port(options, install))


def _authority(options: RunaiOptions) -> Manifest:
    return {"customCA": {"enabled": True}} if options.ca is not None else {}


def _other_port(options: RunaiOptions, install: RunaiInstall) -> Manifest:
    """Tokens name their issuer with its port (reported by a user of 2.21; no page of 3.0 describes it)."""
    if install.port == HTTPS:
        return {}
    endpoint = f"{options.address}/auth"
    environment = (
        f"- name: KC_HOSTNAME\n  value: {endpoint}\n- name: KC_HOSTNAME_STRICT\n  value: 'false'\n"
    )
    return {
        "global": {"keycloakExternalEndpoint": endpoint},
        "clusterService": {"keycloakExternalEndpoint": endpoint},
        "keycloakx": {"extraEnv": environment},
    }


def secret_values(secrets: Secrets) -> Manifest:
    """Passwords of the control plane: those of PostgreSQL and Keycloak replace the chart's defaults."""
    database = str(secrets[DATABASE_PASSWORD])
    return {
        "tenantsManager": {"config": {"adminPassword": str(secrets[ADMIN_PASSWORD])}},
        "global": {"postgresql": {"auth": {"password": database, "postgresPassword": database}}},
        "postgresql": {"primary": {"initdb": {"password": database}}},
        "keycloakx": {
            "adminUser": KEYCLOAK_ADMIN,
            "adminPassword": str(secrets[KEYCLOAK_PASSWORD]),
        },
    }


def cluster(site: Site) -> Manifest:
    """Chart runai-cluster, before its registration."""
    options, install = options_of(site)
    url = options.address
    shared = _authority(options)
    if options.edition == "entitled":
        shared["additionalImagePullSecrets"] = [{"name": PULL_SECRET}]
    return {
        "controlPlane": {"url": url},
        "cluster": {"url": url},
        **({"global": shared} if shared else {}),
        "researcherService": {"ingress": {"tlsSecret": CLUSTER_TLS}},
        "clusterConfig": {
            "global": {
                "ingress": {"ingressClass": install.ingress_class},
                "subdomainSupport": install.subdomains,
            }
        },
    }


def registered(values: Manifest, uid: str, token: str) -> Manifest:
    """Return the same with the cluster's id and its bootstrap token, which is valid for two hours."""
    own = {"controlPlane": {"bootstrapToken": token}, "cluster": {"uid": uid}}
    return merged(values, own)


def merged(one: Mapping[str, object], other: Mapping[str, object]) -> Manifest:
    """Merge both trees of values; ``other`` takes precedence."""
    made: Manifest = deepcopy(dict(one))
    for key, value in other.items():
        both = isinstance(value, Mapping) and isinstance(made.get(key), Mapping)
        made[key] = merged(made[key], value) if both and isinstance(value, Mapping) else value
    return made
