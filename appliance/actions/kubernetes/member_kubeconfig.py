"""A member's kubeconfig: a certificate signed by the cluster, valid for days and for the namespaces of the member's projects."""

import re
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol

from appliance.adapters.certificates import KeyPair
from appliance.adapters.kubernetes import Ref, Resource
from appliance.engine.run.kubeconfig import document, write
from appliance.errors import ApplianceError, ConfigError
from appliance.models.site import Site
from appliance.stages.scheduler.queues.manifest import text
from appliance.stages.scheduler.queues.namespaces import MEMBERS, RBAC, namespace_of

MOST_DAYS = 30
"""A certificate cannot be revoked, so its validity is at most a month."""
API, KIND = "certificates.k8s.io/v1", "CertificateSigningRequest"
SIGNER = "kubernetes.io/kube-apiserver-client"
PATIENCE_S = 30.0
"""A controller of the cluster signs, usually within a second."""
LONGEST = 64
"""Characters of a common name in a certificate (X.520)."""
APPLY = "appliance queue apply"


class SiteFolder(Protocol):
    """A site and where its files lie."""

    @property
    def site(self) -> Site: ...
    @property
    def folder(self) -> Path: ...


class AsAdministrator(Protocol):
    """Requests to a cluster, as its administrator."""

    server: str

    @property
    def authority(self) -> str: ...
    def get(self, ref: Ref) -> Resource | None: ...
    def apply(self, resource: Resource) -> Resource: ...
    def delete(self, ref: Ref) -> None: ...
    def send(
        self, method: str, path: str, doing: str, body: Resource | None = None
    ) -> tuple[int, Resource]: ...


@dataclass(frozen=True)
class Member:
    """The path of the kubeconfig, its server, the member's namespaces, and its expiry."""

    file: Path
    server: str
    user: str
    namespaces: tuple[str, ...]
    until: datetime


def issue(
    loaded: SiteFolder,
    api: AsAdministrator,
    user: str,
    days: int,
    sleep: Callable[[float], None] = time.sleep,
) -> Member:
    """Has the cluster sign a key created here, and writes it next to the site's kubeconfig (0600).

    Raises ConfigError for a user who is not a member, ApplianceError if the cluster grants no rights or signs nothing.
    """
    spaces = _namespaces(loaded.site, user)
    for space in spaces:
        _is_bound(api, user, space)
    pair = KeyPair.fresh()
    signed = pair.signed(api.authority + _signed(api, user, pair.request(user), days, sleep))
    file = loaded.folder / f"kubeconfig-{re.sub('[^A-Za-z0-9@._-]', '_', user)}"
    write(file, text(document(loaded.site.name, api.server, user, pair, signed, spaces)))
    return Member(file, api.server, user, spaces, signed.until)


def _namespaces(site: Site, user: str) -> tuple[str, ...]:
    if site.scheduler and site.scheduler.kind == "runai":
        raise ConfigError(
            f"Run:ai grants {user} rights in the namespaces of its projects, and this program grants none there",
            f"let {user} log in with the command line of Run:ai, or with kubernetes.oidc (docs/runai.md)",
        )
    projects = site.scheduler.projects if site.scheduler else ()
    found = tuple(namespace_of(p.name) for p in projects if user in p.users)
    if not found:
        raise ConfigError(
            f"{user} is not listed as a user of any project",
            f"add the name under scheduler.projects[].users, then {APPLY}; "
            "members by group log in with kubernetes.oidc",
        )
    if len(user) > LONGEST:
        raise ConfigError(
            f"the user name {user} has {len(user)} characters; a certificate supports at most {LONGEST}",
            "shorten it under users, or use kubernetes.oidc",
        )
    return found


def _is_bound(api: AsAdministrator, user: str, space: str) -> None:
    """Rights belong to the name, not to the certificate: without them it would grant nothing."""
    binding = api.get(Ref(RBAC, "RoleBinding", MEMBERS, space))
    subjects = (binding or {}).get("subjects") or []
    if not any((s["kind"], s["name"]) == ("User", user) for s in subjects):
        raise ApplianceError(f"the cluster grants {user} no rights in {space} yet", APPLY)


def _signed(
    api: AsAdministrator, user: str, request: str, days: int, sleep: Callable[[float], None]
) -> str:
    """The certificate in PEM; the request is deleted in any case."""
    name = f"appliance-member-{token_hex(8)}"
    spec = {
        "request": b64encode(request.encode()).decode(),
        "signerName": SIGNER,
        "expirationSeconds": days * 86400,
        "usages": ["client auth"],
    }
    made = {"apiVersion": API, "kind": KIND, "metadata": {"name": name}, "spec": spec}
    ref = Ref(API, KIND, name)
    found = api.apply(made)
    try:
        said = {"reason": "ApplianceMember", "message": f"appliance kubeconfig --user {user}"}
        approved = {"conditions": [{"type": "Approved", "status": "True", **said}]}
        path = f"/apis/{API}/certificatesigningrequests/{name}/approval"
        api.send("PUT", path, f"approve the request of {user}", {**found, "status": approved})
        for _ in range(int(PATIENCE_S)):
            status = (api.get(ref) or {}).get("status", {})
            if answer := status.get("certificate"):
                return b64decode(answer).decode()
            _refuse(user, status.get("conditions") or [])
            sleep(1)
    finally:
        api.delete(ref)
    raise ApplianceError(
        f"the cluster did not sign the certificate of {user} within {PATIENCE_S:g} s",
        "check that kube-controller-manager runs and has the CA key (appliance health --check kubernetes); "
        "an external cluster may not sign: ask its owner",
    )


def _refuse(user: str, conditions: list[dict[str, Any]]) -> None:
    for condition in conditions:
        if condition["type"] in ("Denied", "Failed"):
            raise ApplianceError(
                f"the cluster refused the certificate of {user}: {condition.get('message', condition['type'])}",
                "kubectl describe clusterrole, and check other approvers of such requests",
            )
