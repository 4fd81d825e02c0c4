"""One GPU pod in a project's namespace, through a queue of the project: the scheduler must give it a GPU."""

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from appliance.adapters.kubernetes import Ref
from appliance.adapters.pods import GPU, KAI, QUEUE_LABEL, PodRemote
from appliance.adapters.remote import Remote
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.project_queue import POD, name_of, queue_of
from appliance.checks.check import View, failed, not_assessed, passed
from appliance.errors import ClusterFailed
from appliance.models.result import CheckResult, Measurement
from appliance.stages.scheduler.queues.namespaces import namespace_of

START_SECONDS = 60.0
RUN_SECONDS = 60.0
"""After a host has the pod: its image, its start, one line of output."""
NOBODY = 65534
SAY = 'echo "gpus=$NVIDIA_VISIBLE_DEVICES"'
MARK = "gpus="
WAITS = "appliance queue show --site SITE, and: kubectl -n {space} describe pod"
FAILS = "appliance health --check kubernetes --check scheduler"


def run(
    view: View,
    remote: Remote,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Check scheduler.pod, and the seconds from the pod's creation to its end."""
    pair = queue_of(view.site)
    if pair is None or not isinstance(remote, PodRemote):
        why = "the site has no queue that offers a whole GPU"
        return Outcome((not_assessed("cluster", why, required=False).of(POD),))
    space, queue = namespace_of(pair[0].name), name_of(*pair)
    ref = Ref("v1", "Pod", f"appliance-trial-{uuid.uuid4().hex[:8]}", space)
    began = clock()
    try:
        remote.cluster.apply(pod(ref, queue, remote.way.image))
        found = _ended(remote, ref, clock, sleep)
        said = remote.cluster.logs(ref) if _phase(found) == "Succeeded" else ""
    except ClusterFailed as error:
        bad = failed("cluster", f"pod through queue {queue}: {error.message}", error.hint or FAILS)
        return Outcome((bad.of(POD),))
    finally:
        with suppress(ClusterFailed):
            remote.cluster.delete(ref)
    verdict = judge(view, found, said, queue, space)
    took = Measurement(
        name=POD,
        value=round(clock() - began, 2),
        unit="s",
        simulated=_simulated(view),
        detail={"queue": queue},
    )
    return Outcome((verdict,), (took,) if verdict.status == "pass" else ())


def pod(ref: Ref, queue: str, image: str) -> dict[str, Any]:
    """A pod as a member of the project writes it: one GPU, through the queue."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": ref.name,
            **({"namespace": ref.namespace} if ref.namespace else {}),
            "labels": {QUEUE_LABEL: queue},
        },
        "spec": {
            "schedulerName": KAI,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "activeDeadlineSeconds": int(START_SECONDS + RUN_SECONDS),
            # As pod security level restricted requires it.
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "work",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "image": image,
                    "command": ["sh", "-c", SAY],
                    "resources": {"limits": {GPU: "1"}},
                }
            ],
        },
    }


def _ended(
    remote: PodRemote, ref: Ref, clock: Callable[[], float], sleep: Callable[[float], None]
) -> Mapping[str, Any]:
    """Returns the pod when it has ended, or its state when the time for its next step is over."""
    began = clock()
    placed = 0.0
    while True:
        found = remote.cluster.get(ref) or {}
        if _phase(found) in {"Succeeded", "Failed"} or remote.cancelled():
            return found
        if not placed and found.get("spec", {}).get("nodeName"):
            placed = clock()
        if clock() - began > START_SECONDS and not placed:
            return found
        if placed and clock() - placed > RUN_SECONDS:
            return found
        sleep(0.5)


def judge(view: View, found: Mapping[str, Any], said: str, queue: str, space: str) -> CheckResult:
    """The verdict on a pod in its last state. ``said``: its output."""
    phase, host = _phase(found), str(found.get("spec", {}).get("nodeName") or "")
    if not host:
        why = f"the scheduler gave no host to a pod of queue {queue} within {START_SECONDS:g} s: {_why(found)}"
        return not_assessed(
            "cluster", why, fix=WAITS.format(space=space), simulated=_simulated(view)
        ).of(POD)
    gpus = [uuid for uuid in said.strip().removeprefix(MARK).split(",") if uuid]
    if phase != "Succeeded":
        cause = f"the pod of queue {queue} on {host} is {phase or 'gone'}: {_why(found)}"
    elif len(gpus) != 1:
        cause = f"the pod of queue {queue} on {host} got {len(gpus)} GPUs, but requested 1"
    else:
        return passed(
            "cluster",
            1,
            unit="GPU",
            limit=1,
            limit_source="the pod's own request",
            evidence=f"pod in {space} through queue {queue}, bound by {found['spec'].get('schedulerName')} to {host}",
            simulated=_simulated(view),
        ).of(POD)
    return failed("cluster", cause, FAILS, simulated=_simulated(view)).of(POD)


def _phase(found: Mapping[str, Any]) -> str:
    return str(found.get("status", {}).get("phase", ""))


def _why(found: Mapping[str, Any]) -> str:
    status = found.get("status", {})
    for container in status.get("containerStatuses", []):
        for state in container.get("state", {}).values():
            if reason := state.get("reason"):
                return f"{reason} {state.get('message', '')}".strip()
    said = (
        c.get("message", "") for c in status.get("conditions", []) if c.get("status") == "False"
    )
    return next(filter(None, said), "no reason given")


def _simulated(view: View) -> bool:
    return any(area.startswith("gpu") for area in view.site.simulated)
