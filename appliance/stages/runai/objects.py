"""Namespaces of Run:ai and the secrets that it finds by name (NVIDIA Run:ai 3.0, "preparations"; the namespaces come first)."""

import base64
import json

from appliance.config.secrets import Secrets
from appliance.models.site import Site
from appliance.stages.runai.values import (
    CA,
    CLUSTER_TLS,
    INFERENCE_KEY,
    PULL_SECRET,
    TLS,
    TLS_KEY,
    options_of,
)
from appliance.stages.scheduler.queues.manifest import Manifest, manifest
from appliance.stages.scheduler.queues.namespaces import NGC_KEY
from appliance.stages.workloads.releases import SECURITY, STAGE

NAME = "runai"
BACKEND, ENGINE, KNATIVE = "runai-backend", "runai", "knative-serving"
STAR_TLS = "runai-cluster-domain-star-tls-secret"
INFERENCE_TLS = "runai-cluster-inference-tls-secret"
CA_FILE = "runai-ca.pem"
CA_LABELS = {"run.ai/cluster-wide": "true", "run.ai/name": CA}
REGISTRY = "nvcr.io"

Files = dict[str, str]
"""Contents of the site's files by their names: certificates."""


def namespaces(site: Site) -> tuple[Manifest, ...]:
    """Before their secrets: Helm would make them too late. Run:ai needs Pod Security level privileged."""
    _, install = options_of(site)
    names = (BACKEND, ENGINE, *((KNATIVE,) if install.inference else ()))
    labels = {STAGE: NAME, SECURITY: "privileged"}
    return tuple(manifest(site.name, "v1", "Namespace", name, labels=labels) for name in names)


def secrets(site: Site, files: Files, known: Secrets) -> tuple[Manifest, ...]:
    """Certificates, the CA and the registry's login. Their content is never part of a receipt, a plan or a file."""
    options, install = options_of(site)
    chain, key = files[install.certificate], str(known[TLS_KEY])
    made = [_tls(site, BACKEND, TLS, chain, key), _tls(site, ENGINE, CLUSTER_TLS, chain, key)]
    if install.subdomains:
        made.append(_tls(site, ENGINE, STAR_TLS, chain, key))
    if install.inference is not None:
        chain = files[install.inference.certificate]
        made.append(_tls(site, KNATIVE, INFERENCE_TLS, chain, str(known[INFERENCE_KEY])))
    if options.ca is not None:
        data = {CA_FILE: files[options.ca]}
        made.append(_secret(site, BACKEND, CA, "Opaque", data))
        made.append(_secret(site, ENGINE, CA, "Opaque", data, CA_LABELS))
    if options.edition == "entitled":
        made += [_login(site, place, str(known[NGC_KEY])) for place in (BACKEND, ENGINE)]
    return tuple(made)


def files_of(site: Site) -> tuple[str, ...]:
    """The site's files that ``secrets`` reads, relative to its folder."""
    options, install = options_of(site)
    inference = (install.inference.certificate,) if install.inference else ()
    return (install.certificate, *inference, *((options.ca,) if options.ca else ()))


def _tls(site: Site, namespace: str, name: str, chain: str, key: str) -> Manifest:
    return _secret(
        site, namespace, name, "kubernetes.io/tls", {"tls.crt": chain, "tls.key": f"{key}\n"}
    )


def _login(site: Site, namespace: str, key: str) -> Manifest:
    login = {
        "username": "$oauthtoken",
        "password": key,
        "auth": _encoded(f"$oauthtoken:{key}"),
    }
    data = {".dockerconfigjson": json.dumps({"auths": {REGISTRY: login}})}
    return _secret(site, namespace, PULL_SECRET, "kubernetes.io/dockerconfigjson", data)


def _secret(
    site: Site,
    namespace: str,
    name: str,
    kind: str,
    data: dict[str, str],
    labels: dict[str, str] | None = None,
) -> Manifest:
    """Its digest is of everything but the data."""
    made = manifest(
        site.name,
        "v1",
        "Secret",
        name,
        {"type": kind},
        namespace=namespace,
        labels={STAGE: NAME, **(labels or {})},
    )
    return {**made, "data": {key: _encoded(value) for key, value in data.items()}}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
