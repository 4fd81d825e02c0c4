"""The adapter for the Kubernetes API: resources are read, applied by the server, and deleted."""

import json
import re
import shlex
import stat
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode, urlsplit

from appliance.adapters.json_answers import parsed
from appliance.errors import ApplianceError, ClusterFailed, ClusterRefused, ConfigError
from appliance.ownership import require

Resource = dict[str, Any]

FIELD_MANAGER = "appliance"
CONNECT_S, READ_S = 5.0, 30.0
WAITS_S = (0.5, 1.0, 2.0, 4.0)
LONGEST_WAIT_S = 30.0
"""A server's Retry-After never delays a run longer than this."""

LONGEST = 256 << 20
"""Bytes of an answer: all pods of 5,000 hosts are 100 MB."""
WHOLE_S = 300.0
"""Time limit of a whole answer; READ_S is for each piece of it."""
PIECE = 1 << 16
LONGEST_LOG = 8 << 20
"""Bytes of a pod's log that are read."""

PASSING = frozenset({409, 429, 500, 502, 503, 504})
"""Transient answers; every request can be repeated, because applying twice equals applying once."""

SECONDS = re.compile("[0-9]{1,9}")
"""Value of Retry-After, which may also be a date."""
WEBHOOK = re.compile(r'failed calling webhook "([^"]+)"')
QUOTA = re.compile(
    r"exceeded quota: .*?used: (?:count/)?(?P<kind>[a-z.]+)=(?P<used>\d+).*?limited: (?:count/)?(?P=kind)=(?P<most>\d+)"
)
KINDS: Mapping[tuple[str, str], tuple[str, bool]] = {
    ("v1", "ConfigMap"): ("configmaps", True),
    ("v1", "LimitRange"): ("limitranges", True),
    ("v1", "Namespace"): ("namespaces", False),
    ("v1", "Node"): ("nodes", False),
    ("v1", "PersistentVolume"): ("persistentvolumes", False),
    ("v1", "PersistentVolumeClaim"): ("persistentvolumeclaims", True),
    ("v1", "Pod"): ("pods", True),
    ("v1", "ResourceQuota"): ("resourcequotas", True),
    ("v1", "Secret"): ("secrets", True),
    ("v1", "Service"): ("services", True),
    ("v1", "ServiceAccount"): ("serviceaccounts", True),
    ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy"): (
        "mutatingadmissionpolicies",
        False,
    ),
    ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding"): (
        "mutatingadmissionpolicybindings",
        False,
    ),
    ("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicy"): (
        "mutatingadmissionpolicies",
        False,
    ),
    ("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicyBinding"): (
        "mutatingadmissionpolicybindings",
        False,
    ),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"): (
        "validatingadmissionpolicies",
        False,
    ),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"): (
        "validatingadmissionpolicybindings",
        False,
    ),
    ("apps/v1", "Deployment"): ("deployments", True),
    ("apps/v1", "ReplicaSet"): ("replicasets", True),
    ("apps/v1", "StatefulSet"): ("statefulsets", True),
    ("batch/v1", "CronJob"): ("cronjobs", True),
    ("batch/v1", "Job"): ("jobs", True),
    ("certificates.k8s.io/v1", "CertificateSigningRequest"): ("certificatesigningrequests", False),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): ("customresourcedefinitions", False),
    ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"): ("flowschemas", False),
    ("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration"): (
        "prioritylevelconfigurations",
        False,
    ),
    ("gateway.networking.k8s.io/v1", "GatewayClass"): ("gatewayclasses", False),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): ("jobsets", True),
    ("kai.resources/v1alpha1", "Department"): ("departments", False),
    ("kai.resources/v1alpha1", "NodePool"): ("nodepools", False),
    ("kai.resources/v1alpha1", "Project"): ("projects", False),
    ("kai.scheduler/v1", "Config"): ("configs", False),
    ("kai.scheduler/v1", "SchedulingShard"): ("schedulingshards", False),
    ("kai.scheduler/v1alpha1", "Topology"): ("topologies", False),
    ("kubeflow.org/v2beta1", "MPIJob"): ("mpijobs", True),
    ("kubernetes.dask.org/v1", "DaskJob"): ("daskjobs", True),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): ("leaderworkersets", True),
    ("mellanox.com/v1alpha1", "NicClusterPolicy"): ("nicclusterpolicies", False),
    ("networking.k8s.io/v1", "NetworkPolicy"): ("networkpolicies", True),
    ("nvidia.com/v1", "ClusterPolicy"): ("clusterpolicies", False),
    ("ray.io/v1", "RayJob"): ("rayjobs", True),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): ("clusterroles", False),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): ("clusterrolebindings", False),
    ("rbac.authorization.k8s.io/v1", "Role"): ("roles", True),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): ("rolebindings", True),
    ("resource.k8s.io/v1", "DeviceClass"): ("deviceclasses", False),
    ("resource.k8s.io/v1", "ResourceSlice"): ("resourceslices", False),
    ("scheduling.k8s.io/v1", "PriorityClass"): ("priorityclasses", False),
    ("scheduling.run.ai/v2", "Queue"): ("queues", False),
    ("scheduling.run.ai/v2alpha2", "PodGroup"): ("podgroups", True),
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication"): ("sparkapplications", True),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): ("trainjobs", True),
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): ("trainingruntimes", True),
}
"""Plural, and whether it is namespaced. Listed here, because a server with only custom resources has no /apis."""


class Ref(NamedTuple):
    """The identity of one resource; ``namespace`` is empty for a cluster-scoped one."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""

    @classmethod
    def of(cls, resource: Mapping[str, Any]) -> "Ref":
        """The reference of a resource."""
        meta = resource["metadata"]
        return cls(
            resource["apiVersion"], resource["kind"], meta["name"], meta.get("namespace", "")
        )

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.kind} {self.name}{where}"


class Cluster(Protocol):
    """Operations on a cluster. All raise ClusterFailed, with a remedy."""

    def get(self, ref: Ref) -> Resource | None:
        """One resource, or None if it does not exist."""
        ...

    def find(self, api_version: str, kind: str, selector: str) -> list[Resource]:
        """All of a kind that have the labels; empty if the cluster does not know the kind."""
        ...

    def apply(self, resource: Resource) -> Resource:
        """Sets the given fields, regardless of their owner, and returns the resulting resource."""
        ...

    def serves(self, api_version: str, kind: str) -> bool:
        """Whether the cluster has this kind in this version."""
        ...

    def label(self, node: str, labels: Mapping[str, str | None]) -> bool:
        """Labels a node, or removes a label (None) from it; False if the cluster has no such node."""
        ...

    def delete(self, ref: Ref) -> None:
        """Deletes it; a missing resource counts as deleted."""
        ...


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    retry_after: str | None

    @property
    def document(self) -> Resource:
        try:
            found = parsed(self.body.decode(errors="replace"))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def message(self) -> str:
        said = self.document.get("message") or self.body.decode(errors="replace")
        return " ".join(str(said).split())[:400] or f"HTTP {self.status}"


class KubernetesApi:
    """A cluster by its kubeconfig. Each request is tried once, and again after each of ``waits`` (seconds)."""

    def __init__(
        self,
        kubeconfig: Path,
        *,
        waits: Sequence[float] = WAITS_S,
        sleep: Callable[[float], None] = time.sleep,
        keys_in: Path | None = None,
    ) -> None:
        """``keys_in``: where the client stores keys embedded in the kubeconfig; None: with temporary files."""
        self.kubeconfig = kubeconfig
        self._waits = waits
        self._sleep = sleep
        self._configuration = _configuration(kubeconfig, keys_in)
        from kubernetes.client.rest import RESTClientObject  # noqa: TID251 - the door

        self._pool = RESTClientObject(self._configuration).pool_manager
        self.server: str = self._configuration.host

    def __enter__(self) -> "KubernetesApi":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.clear()

    @property
    def authority(self) -> str:
        """The CA certificates of the kubeconfig, in PEM; "" if it uses those of this machine."""
        file = self._configuration.ssl_ca_cert
        return Path(file).read_text(encoding="ascii") if file else ""

    def get(self, ref: Ref) -> Resource | None:
        """See Cluster."""
        answer = self._call("GET", _path(ref), f"read {ref}", absent=True)
        return None if answer.status == 404 else answer.document

    def find(self, api_version: str, kind: str, selector: str) -> list[Resource]:
        """See Cluster."""
        path = _path(Ref(api_version, kind, ""), {"labelSelector": selector})
        answer = self._call("GET", path, f"list {kind}s", absent=True)
        items = answer.document.get("items") or [] if answer.status == 200 else []
        if not isinstance(items, list) or not all(map(_is_resource, items)):
            raise ClusterFailed(
                f"list {kind}s: the answer of {self.server} is not a list of them",
                "check that it is the API server: kubectl get --raw /version",
            )
        return [{"apiVersion": api_version, "kind": kind, **item} for item in items]

    def apply(self, resource: Resource) -> Resource:
        """See Cluster."""
        ref = Ref.of(resource)
        path = _path(ref, {"fieldManager": FIELD_MANAGER, "force": "true"})
        kind = "application/apply-patch+yaml"
        answer = self._call("PATCH", path, f"apply {ref}", resource, kind, absent=True)
        if answer.status == 404:
            raise ClusterFailed(
                f"{ref}: the cluster has no {ref.kind} of {ref.api_version}, or the namespace does not exist",
                "first install the chart that defines it: appliance deploy; create namespaces of projects: appliance queue apply",
            )
        return answer.document

    def serves(self, api_version: str, kind: str) -> bool:
        """See Cluster."""
        path = _path(Ref(api_version, kind, ""), {"limit": "1"})
        return self._call("GET", path, f"list {kind}s", absent=True).status != 404

    def label(self, node: str, labels: Mapping[str, str | None]) -> bool:
        """See Cluster. A patch, not an apply, which would create a missing node."""
        path = _path(Ref("v1", "Node", node), {"fieldManager": FIELD_MANAGER})
        patch = {"metadata": {"labels": dict(labels)}}
        kind = "application/merge-patch+json"
        answer = self._call("PATCH", path, f"label node {node}", patch, kind, absent=True)
        return answer.status != 404

    def delete(self, ref: Ref) -> None:
        """See Cluster. With its dependents: the API of Jobs keeps their pods otherwise."""
        path = _path(ref, {"propagationPolicy": "Background"})
        self._call("DELETE", path, f"delete {ref}", absent=True)

    def logs(self, pod: Ref, container: str = "") -> str:
        """The output of a container, by default the only one; with standard error, at most LONGEST_LOG bytes."""
        path = f"/api/v1/namespaces/{quote(pod.namespace)}/pods/{quote(pod.name)}/log"
        wanted = {"container": container} if container else {}
        query = urlencode({**wanted, "limitBytes": LONGEST_LOG})
        answer = self._call("GET", f"{path}?{query}", f"read the log of {pod}")
        return answer.body.decode(errors="replace")

    def served(self, group: str) -> tuple[str, ...]:
        """The served versions of an API group, its preferred one first; empty if it has none."""
        answer = self._call("GET", f"/apis/{quote(group)}", f"read group {group}", absent=True)
        if answer.status == 404:
            return ()
        found = [str(v["version"]) for v in answer.document.get("versions", [])]
        first = answer.document.get("preferredVersion", {}).get("version", "")
        return tuple(sorted(found, key=lambda version: version != first))

    def version(self) -> str:
        """The server's release, such as v1.35.4."""
        answer = self._call("GET", "/version", "read the server's release")
        return str(answer.document.get("gitVersion", ""))

    def send(
        self,
        method: str,
        path: str,
        doing: str,
        body: Resource | None = None,
        content_type: str = "application/json",
        *,
        answers: Collection[int] = (),
    ) -> tuple[int, Resource]:
        """Any other request: status and document. ``answers``: statuses that are not failures."""
        answer = self._call(method, path, doing, body, content_type, answers=answers)
        return answer.status, answer.document

    def _call(
        self,
        method: str,
        path: str,
        doing: str,
        body: Resource | None = None,
        content_type: str = "application/json",
        *,
        absent: bool = False,
        answers: Collection[int] = (),
    ) -> _Answer:
        for wait in (*self._waits, None):
            try:
                answer = self._once(method, path, body, content_type)
            except ApplianceError as error:
                if wait is None or not isinstance(error, _NoAnswer):
                    raise ClusterFailed(f"{doing}: {error.message}", error.hint) from None
                self._sleep(wait)
                continue
            if answer.status < 300 or answer.status in answers or (absent and answer.status == 404):
                return answer
            if wait is None or answer.status not in PASSING:
                raise self._refused(doing, answer)
            self._sleep(_wait(answer.retry_after, wait))
        raise AssertionError("the last try returns or raises")

    def _once(self, method: str, path: str, body: Resource | None, content_type: str) -> _Answer:
        import urllib3

        # A pod's log is text, and the only answer that is not a document.
        headers = {"Accept": "application/json, */*;q=0.5", "User-Agent": FIELD_MANAGER}
        for setting in self._configuration.auth_settings().values():
            if setting["in"] == "header" and setting["value"]:
                headers[setting["key"]] = setting["value"]
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            answer = self._pool.request(
                method,
                self.server + path,
                headers=headers,
                body=None if body is None else json.dumps(body).encode(),
                timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            found = _body(answer, self.server)
        except urllib3.exceptions.SSLError as error:
            raise ClusterFailed(*self._untrusted(str(error))) from None
        except urllib3.exceptions.NewConnectionError:
            raise _NoAnswer(
                f"{self.server} does not accept connections",
                "check that the API server runs, and that the kubeconfig names the right one",
            ) from None
        except urllib3.exceptions.TimeoutError:
            raise _NoAnswer(
                f"{self.server} did not answer within {READ_S:g} s",
                "check the load of the API server and etcd, then run this command again",
            ) from None
        except urllib3.exceptions.HTTPError as error:
            raise _NoAnswer(
                f"{self.server} closed the connection ({type(error).__name__})",
                "check the API server's log, then run this command again",
            ) from None
        return _Answer(answer.status, found, answer.headers.get("Retry-After"))

    def _untrusted(self, why: str) -> tuple[str, str]:
        reason = next(
            (
                words
                for sign, words in (
                    ("certificate has expired", "has expired"),
                    ("Hostname mismatch", "is for another name"),
                    ("IP address mismatch", "is for another address"),
                    ("self-signed", "is not signed by the CA in the kubeconfig"),
                    ("self signed", "is not signed by the CA in the kubeconfig"),
                    ("unable to get local issuer", "is not signed by the CA in the kubeconfig"),
                )
                if sign in why
            ),
            "cannot be verified",
        )
        remedy = f"get a new {self.kubeconfig}: appliance kubeconfig; verification is never skipped"
        return f"the certificate of {self.server} {reason}", remedy

    def _refused(self, doing: str, answer: _Answer) -> ClusterFailed:
        if answer.status == 401:
            return ClusterFailed(
                f"{doing}: {self.server} does not accept the token or certificate of {self.kubeconfig}",
                "it has expired or was revoked: get a new kubeconfig (appliance kubeconfig, or from the owner of an external cluster)",
            )
        if hook := WEBHOOK.search(answer.message):
            return ClusterFailed(
                f"{doing}: admission webhook {hook.group(1)} does not answer",
                "check the pods behind it (kubectl get pods -A), then run this command again",
            )
        if full := QUOTA.search(answer.message):
            kind, used, most = full.group("kind", "used", "most")
            return ClusterRefused(
                f"{doing}: the namespace has {used} of {most} {kind} (its quota)",
                f"delete some of the project's {kind}, or raise its quota, then run this command again",
            )
        remedies = {
            403: "give the kubeconfig's user this permission, or use an administrator's kubeconfig",
            409: "another client is changing it: run this command again",
            422: "check the fields that the cluster's version supports: kubectl explain",
            429: "the API server is overloaded: run this command again later",
        }
        late = "check the logs of the API server and etcd, then run this command again"
        remedy = remedies.get(
            answer.status, late if answer.status >= 500 else "check the resource: kubectl explain"
        )
        kind = ClusterRefused if 400 <= answer.status < 500 else ClusterFailed
        return kind(f"{doing}: {answer.message} (HTTP {answer.status})", remedy)


def _body(answer: Any, server: str) -> bytes:
    """The whole answer, as it was sent. Raises ClusterFailed if it is too large, or does not end."""
    found, end = bytearray(), time.monotonic() + WHOLE_S
    # Not decompressed: no compression is requested, and a small answer could expand to any size.
    while piece := answer.read1(PIECE, decode_content=False):
        found += piece
        if len(found) > LONGEST or time.monotonic() > end:
            answer.close()
            much = f"more than {LONGEST >> 20} MiB" if len(found) > LONGEST else "without an end"
            raise ClusterFailed(
                f"{server} answers {much}", "check that it is the API server, and what it stores"
            )
    answer.release_conn()
    return bytes(found)


class _NoAnswer(ClusterFailed):
    """No answer arrived; a retry may succeed."""


def _configuration(file: Path, keys_in: Path | None) -> Any:
    """The client's configuration. Raises ConfigError: unreadable, readable by others, or without TLS verification."""
    try:
        state = file.stat()
    except OSError as error:
        raise ConfigError(
            f"kubeconfig {file} cannot be read ({error.strerror})",
            "get one: appliance kubeconfig; or name one with --kubeconfig or KUBECONFIG",
        ) from None
    if not stat.S_ISREG(state.st_mode):
        raise ConfigError(f"kubeconfig {file} is not a regular file", "name the file itself")
    if (mode := stat.S_IMODE(state.st_mode)) & 0o077:
        raise ConfigError(
            f"kubeconfig {file} is accessible to other users (mode {mode:04o})",
            f"chmod 600 {shlex.quote(str(file))}",
        )
    # It names programs that are run for a token, and the trusted CA.
    require(file)
    from kubernetes import client, config  # noqa: TID251 - the door; half a second to load

    settings = client.Configuration()
    try:
        load: Any = config.load_kube_config
        load(config_file=str(file), client_configuration=settings, temp_file_path=keys_in)
    except Exception as error:  # noqa: BLE001 - the loader lets KeyError, TypeError and YAML errors through
        said = "" if isinstance(error, KeyError) else f" ({' '.join(str(error).split())[:120]})"
        raise ConfigError(
            f"{file} is not a usable kubeconfig{said}", "get a new one: appliance kubeconfig"
        ) from None
    address = urlsplit(settings.host)
    if address.scheme != "https" and address.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise ConfigError(f"{file}: {settings.host} is not https", "name the API server's TLS port")
    if not settings.verify_ssl:
        raise ConfigError(
            f"{file} skips the verification of the API server's certificate",
            "remove insecure-skip-tls-verify and add certificate-authority-data",
        )
    return settings


def _is_resource(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("metadata"), dict)


def _path(ref: Ref, query: Mapping[str, str] | None = None) -> str:
    plural, inside = KINDS[ref.api_version, ref.kind]
    root = "/apis/" if "/" in ref.api_version else "/api/"
    parts = [root + ref.api_version]
    if inside and ref.namespace:
        parts += ["namespaces", quote(ref.namespace, safe="")]
    parts.append(plural)
    if ref.name:
        parts.append(quote(ref.name, safe=""))
    return "/".join(parts) + (f"?{urlencode(query)}" if query else "")


def _wait(retry_after: str | None, planned: float) -> float:
    given = SECONDS.fullmatch(retry_after or "")
    return min(float(given[0]) if given else planned, LONGEST_WAIT_S)
