"""What a drain does with nodes and pods: through kubectl on a control host, or through the API."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from appliance.adapters.json_answers import parsed
from appliance.adapters.kubernetes import KubernetesApi
from appliance.adapters.process import Completed
from appliance.adapters.remote import Remote
from appliance.errors import ClusterFailed

Resource = dict[str, Any]

ADMIN = "/etc/kubernetes/admin.conf"
KUBECTL = ("kubectl", "--kubeconfig", ADMIN, "--request-timeout", "20s")
ABSENT = "NotFound"
REFUSED = "TooManyRequests"
SEVERAL = "more than one PodDisruptionBudget"
"""The API server does not evict a pod with two budgets, and answers with an internal error (500)."""
POLICY = "policy/v1"


class Nodes(Protocol):
    """Nodes of one cluster. All raise ClusterFailed, with a remedy."""

    def node(self, name: str) -> Resource | None:
        """A node, or None if the cluster has none of this name."""
        ...

    def pods(self, node: str) -> list[Resource]:
        """All pods bound to a node."""
        ...

    def patch(self, node: str, patch: Mapping[str, Any]) -> None:
        """A merge patch of a node."""
        ...

    def delete(self, node: str) -> None:
        """Deletes a node; none of this name is no error."""
        ...

    def evict(self, namespace: str, pod: str, grace: int | None = None) -> bool:
        """Requests the eviction of a pod; False if its disruption budget does not allow it now.

        ``grace``: seconds, instead of the pod's own; it also shortens that of a terminating pod.
        """
        ...


class KubectlNodes:
    """A cluster of the appliance's own: kubectl on a control host, whose admin.conf never leaves it."""

    def __init__(self, remote: Remote, host: str) -> None:
        self._remote = remote
        self._host = host
        self._eviction = ""

    def node(self, name: str) -> Resource | None:
        """See Nodes."""
        done = self._run("get", "node", name, "-o", "json")
        if done.returncode and ABSENT in done.stderr:
            return None
        return self._document(done, f"read node {name}")

    def pods(self, node: str) -> list[Resource]:
        """See Nodes."""
        where = f"--field-selector=spec.nodeName={node}"
        done = self._run("get", "pods", "--all-namespaces", where, "-o", "json")
        items: list[Resource] = self._document(done, f"list the pods of {node}").get("items", [])
        return items

    def patch(self, node: str, patch: Mapping[str, Any]) -> None:
        """See Nodes."""
        done = self._run("patch", "node", node, "--type", "merge", "--patch", json.dumps(patch))
        self._succeeded(done, f"change node {node}")

    def delete(self, node: str) -> None:
        """See Nodes."""
        done = self._run("delete", "node", node, "--ignore-not-found", "--wait=false")
        self._succeeded(done, f"delete node {node}")

    def evict(self, namespace: str, pod: str, grace: int | None = None) -> bool:
        """See Nodes."""
        body = _eviction(namespace, pod, self._version(), grace)
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
        done = self._run("create", "--raw", path, "-f", "-", said=json.dumps(body).encode())
        if done.returncode and any(word in done.stderr for word in (REFUSED, SEVERAL)):
            return False
        if not (done.returncode and ABSENT in done.stderr):
            self._succeeded(done, f"evict pod {namespace}/{pod}")
        return True

    def _version(self) -> str:
        """The version of Eviction that this API server supports."""
        if not self._eviction:
            done = self._run("get", "--raw", "/api/v1")
            self._eviction = _eviction_of(self._document(done, "read /api/v1"))
        return self._eviction

    def _run(self, *words: str, said: bytes | None = None) -> Completed:
        return self._remote.run(self._host, [*KUBECTL, *words], input=said, timeout=60)

    def _document(self, done: Completed, doing: str) -> Resource:
        self._succeeded(done, doing)
        try:
            found = parsed(done.stdout)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._failed(doing, "kubectl printed no resource")
        return found

    def _succeeded(self, done: Completed, doing: str) -> None:
        if done.returncode:
            lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            raise self._failed(doing, lines[-1] if lines else f"exit {done.returncode}")

    def _failed(self, doing: str, said: str) -> ClusterFailed:
        fix = f"check the cluster: appliance health --check kubernetes; kubectl on {self._host}"
        return ClusterFailed(f"{doing}: {said}", fix, self._host)


class ApiNodes:
    """An external cluster, by the site's kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self._api = KubernetesApi(kubeconfig)
        self._eviction = ""

    def node(self, name: str) -> Resource | None:
        """See Nodes."""
        path = f"/api/v1/nodes/{name}"
        status, found = self._api.send("GET", path, f"read node {name}", answers={404})
        return None if status == 404 else found

    def pods(self, node: str) -> list[Resource]:
        """See Nodes."""
        path = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}"
        _, found = self._api.send("GET", path, f"list the pods of {node}")
        items: list[Resource] = found.get("items", [])
        return items

    def patch(self, node: str, patch: Mapping[str, Any]) -> None:
        """See Nodes."""
        kind = "application/merge-patch+json"
        self._api.send("PATCH", f"/api/v1/nodes/{node}", f"change node {node}", dict(patch), kind)

    def delete(self, node: str) -> None:
        """See Nodes."""
        self._api.send("DELETE", f"/api/v1/nodes/{node}", f"delete node {node}", answers={404})

    def evict(self, namespace: str, pod: str, grace: int | None = None) -> bool:
        """See Nodes."""
        if not self._eviction:
            self._eviction = _eviction_of(self._api.send("GET", "/api/v1", "read /api/v1")[1])
        body = _eviction(namespace, pod, self._eviction, grace)
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
        doing = f"evict pod {namespace}/{pod}"
        status, said = self._api.send("POST", path, doing, body, answers={404, 429, 500})
        if status == 500 and SEVERAL not in str(said.get("message")):
            raise ClusterFailed(f"{doing}: {said.get('message')}", "check the API server's log")
        return status not in (429, 500)


def _eviction(namespace: str, pod: str, version: str, grace: int | None) -> Resource:
    meta = {"name": pod, "namespace": namespace}
    given = {} if grace is None else {"deleteOptions": {"gracePeriodSeconds": grace}}
    return {"apiVersion": version, "kind": "Eviction", "metadata": meta, **given}


def _eviction_of(resources: Resource) -> str:
    """Kubernetes 1.22 introduced policy/v1; the API's own list shows the supported versions."""
    for entry in resources.get("resources", []):
        if entry.get("name") == "pods/eviction" and entry.get("version"):
            return f"{entry.get('group', 'policy')}/{entry['version']}"
    return POLICY
