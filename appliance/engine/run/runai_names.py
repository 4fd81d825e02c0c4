"""Whether pods resolve Run:ai's names, tried by a pod: its agent and users' workloads reach the control plane by name.

A user of 2.21 found clusters that stayed "waiting to connect", because CoreDNS did not forward the name.
"""

import uuid
from collections.abc import Callable
from typing import Any

from appliance.acceptance.sandbox import PLAIN
from appliance.adapters.kubernetes import Cluster, Ref, Resource
from appliance.errors import ClusterFailed, ClusterRefused
from appliance.models.site import Site
from appliance.stages.runai.values import options_of

NAMESPACE = "default"
LABELS = {"appliance/runai": "names"}
MARK = "appliance/runai=names"
WAIT_S = 180
"""To pull the image and start."""
POLL_S = 2.0
FIRST = 10
"""Exit code of the first name that is not resolved; the next ones follow."""
NO_PROGRAM = 9
SCRIPT = (
    f"command -v nslookup >/dev/null || exit {NO_PROGRAM}; code={FIRST}; "
    'for name in "$@"; do nslookup "$name" 2>/dev/null | grep -q "^Name:" || exit $code; code=$((code + 1)); done'
)
"""The exit code of nslookup alone says nothing: programs differ on a name without an IPv6 address."""
DNS = "let the name servers of the hosts resolve it, or forward its zone in the Corefile of CoreDNS"


def names_of(site: Site) -> tuple[str, ...]:
    """The control plane's name, and one for the wildcard where users' workloads have host names."""
    options, install = options_of(site)
    return (options.host, *((f"check.{options.host}",) if install.subdomains else ()))


def require(
    site: Site, cluster: Cluster, now: Callable[[], float], sleep: Callable[[float], None]
) -> None:
    """Raises ClusterRefused for a name that pods do not resolve, ClusterFailed if the pod does not end."""
    for left in cluster.find("v1", "Pod", MARK):
        cluster.delete(Ref.of(left))
    names = names_of(site)
    pod = _pod(site, names)
    try:
        code, reason = _ended(cluster, pod, now, sleep)
    finally:
        cluster.delete(Ref.of(pod))
    if code == 0:
        return
    if code is not None and 0 <= code - FIRST < len(names):
        wrong = names[code - FIRST].replace("check.", "*.", 1)
        raise ClusterRefused(f"pods do not resolve {wrong}", DNS)
    image = pod["spec"]["containers"][0]["image"]
    if code == NO_PROGRAM:
        raise ClusterFailed(
            f"{image} has no nslookup, so it is unknown whether pods resolve {names[0]}",
            "set kubernetes.trial_image to an image of busybox",
        )
    raise ClusterFailed(
        f"it is unknown whether pods resolve {names[0]}: a pod of {image} {reason}",
        f"look at its events: kubectl -n {NAMESPACE} get events; set kubernetes.trial_image to an image that the hosts can pull",
    )


def _ended(
    cluster: Cluster, pod: Resource, now: Callable[[], float], sleep: Callable[[float], None]
) -> tuple[int | None, str]:
    """The exit code of the pod, or None and why there is none."""
    cluster.apply(pod)
    end = now() + WAIT_S
    while True:
        status = (cluster.get(Ref.of(pod)) or {}).get("status") or {}
        states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
        for state in states:
            if "terminated" in state:
                return int(state["terminated"]["exitCode"]), ""
        if now() >= end:
            waits = [one["waiting"].get("reason", "") for one in states if "waiting" in one]
            reason = next((one for one in waits if one), status.get("phase") or "Pending")
            return None, f"did not end within {WAIT_S} s ({reason})"
        sleep(POLL_S)


def _pod(site: Site, names: tuple[str, ...]) -> Resource:
    image = (site.kubernetes.trial_image if site.kubernetes else None) or PLAIN
    container: dict[str, Any] = {
        "name": "names",
        "image": image,
        "command": ["sh", "-c", SCRIPT, "names", *names],
        "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"appliance-names-{uuid.uuid4().hex[:8]}",
            "namespace": NAMESPACE,
            "labels": LABELS,
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": WAIT_S,
            "automountServiceAccountToken": False,
            "containers": [container],
        },
    }
