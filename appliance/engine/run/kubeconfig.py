"""Writes a kubeconfig with a certificate that a control host signs for some days."""

import os
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from appliance.adapters.certificates import KeyPair, Signed
from appliance.adapters.process import Completed
from appliance.adapters.remote import Remote
from appliance.engine.user import user_name
from appliance.errors import ApplianceError, ConfigError, ConnectionFailed
from appliance.models.site import Host, Role, Site
from appliance.stages.kubernetes.variables import endpoint
from appliance.stages.scheduler.queues.manifest import text

NAME = "kubeconfig"
GROUP = "appliance:admins"
"""Bound to cluster-admin. Not system:masters, whose rights cannot be revoked (Kubernetes, RBAC good practices)."""
NO_CLUSTER, NO_KEY = 10, 11
SIGN = f"""
set -eu
pki=/etc/kubernetes/pki
[ -e /etc/kubernetes/admin.conf ] || exit {NO_CLUSTER}
[ -e $pki/ca.key ] || exit {NO_KEY}
made=$(openssl x509 -req -copy_extensions copy -sha256 -days "$1" \\
  -set_serial "0x$(openssl rand -hex 16)" -CA $pki/ca.crt -CAkey $pki/ca.key)
kubectl="kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 20s"
$kubectl create clusterrolebinding {GROUP} --clusterrole=cluster-admin --group={GROUP} --dry-run=client -o yaml |
  $kubectl apply -f - >/dev/null
cat $pki/ca.crt
printf '%s\\n' "$made"
"""
SECONDS = 90.0


@dataclass(frozen=True)
class Fetched:
    """Its path, its server, its user, and its validity."""

    file: Path
    server: str
    user: str
    until: datetime


def issue(remote: Remote, site: Site, folder: Path, days: int) -> Fetched:
    """Have a control host sign a key made here, and write ``folder``/kubeconfig (0600). Raises ApplianceError."""
    if site.kubernetes is None:
        raise ConfigError(f"{site.name} has no cluster", "add a section kubernetes to site.yml")
    if site.kubernetes.external:
        raise ConfigError(
            f"the cluster is not managed by appliance: {site.kubernetes.external} is its kubeconfig",
            "ask the cluster's owner for a kubeconfig",
        )
    pair, user, server = KeyPair.fresh(), user_name(), f"https://{endpoint(site)}"
    signed = pair.signed(_ask(remote, site, pair.request(user, GROUP), days))
    write(folder / NAME, text(document(site.name, server, user, pair, signed)))
    return Fetched(folder / NAME, server, user, signed.until)


def _ask(remote: Remote, site: Site, request: str, days: int) -> str:
    """Have the first control host that answers sign it."""
    *others, last = site.with_role(Role.CONTROL)
    for host in others:
        with suppress(ConnectionFailed):
            return _signed_by(remote, host, request, days)
    return _signed_by(remote, last, request, days)


def _signed_by(remote: Remote, host: Host, request: str, days: int) -> str:
    argv = ("sh", "-c", SIGN, "sign", str(days))
    done = remote.run(host.name, argv, input=request.encode(), timeout=SECONDS)
    if done.returncode:
        raise ApplianceError(*_refusal(done), host.name)
    return done.stdout


def _refusal(done: Completed) -> tuple[str, str]:
    if done.returncode == NO_CLUSTER:
        return "this host has no cluster yet", "appliance deploy --until kubernetes"
    if done.returncode == NO_KEY:
        return (
            "the key of the cluster's CA is not on this host",
            "ask the owner of the CA for a client certificate, and pass its kubeconfig with --kubeconfig",
        )
    said = (done.stderr.strip() or "no reason given").splitlines()[-1]
    return f"no certificate was made: {said}", "appliance health --check kubernetes"


def document(
    cluster: str,
    server: str,
    user: str,
    pair: KeyPair,
    signed: Signed,
    namespaces: tuple[str, ...] = (),
) -> dict[str, object]:
    """Return a kubeconfig with a context for each named namespace, the first in use."""
    own = f"{user}@{cluster}"
    authority = {"server": server, "certificate-authority-data": _base64(signed.authority)}
    credentials = {
        "client-certificate-data": _base64(signed.certificate),
        "client-key-data": _base64(pair.pem),
    }
    both = {"cluster": cluster, "user": own}
    contexts = [{"name": s, "context": {**both, "namespace": s}} for s in namespaces]
    found = contexts or [{"name": own, "context": both}]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": authority}],
        "users": [{"name": own, "user": credentials}],
        "contexts": found,
        "current-context": found[0]["name"],
    }


def _base64(pem: str) -> str:
    return b64encode(pem.encode()).decode()


def write(file: Path, content: str) -> None:
    """Write the file atomically, and never readable by others."""
    fresh = file.with_name(f".{file.name}.new")
    try:
        fresh.unlink(missing_ok=True)
        with os.fdopen(
            os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8"
        ) as out:
            out.write(content)
        fresh.replace(file)
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written ({error.strerror})", "make the site's folder writable"
        ) from None
