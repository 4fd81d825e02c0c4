"""Tests the installed add-ons: each one's smallest workload through the queue, with a verdict; everything is removed afterwards."""

from collections.abc import Callable, Iterable, Iterator

from appliance.acceptance.hello_parts import HELLO, Hello, Where
from appliance.acceptance.sandbox import Clock, ClusterClient, Resource
from appliance.acceptance.workload import QUEUE_LABEL
from appliance.checks.check import judged
from appliance.errors import ApplianceError
from appliance.models.result import CLUSTER, CheckResult, Status
from appliance.text import plural

PATIENCE_S, GONE_S, BEAT_S = 600.0, 180.0, 3.0
NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName")
Told = Callable[[Hello], None]


def run(
    cluster: ClusterClient, clock: Clock, where: Where, hellos: Iterable[Hello], told: Told
) -> Iterator[CheckResult]:
    """Yield a verdict for each add-on as it is ready. Raises ApplianceError if the cluster does not answer."""
    for hello in hellos:
        told(hello)
        try:
            clean(cluster, where, (hello,))
            yield _tried(cluster, clock, where, hello)
        except ApplianceError as error:
            yield _result(hello, Status.NOT_ASSESSED, error.message, error.hint)
        finally:
            clean(cluster, where, (hello,))


def clean(cluster: ClusterClient, where: Where, hellos: Iterable[Hello]) -> None:
    """Remove the resources of a trial, including a killed one, in reverse order."""
    for hello in hellos:
        for made in reversed(hello.make(where)):
            for found in _resources_of(cluster, where, hello, made["apiVersion"], made["kind"]):
                meta = found["metadata"]
                cluster.delete((made["apiVersion"], made["kind"], meta["name"], meta["namespace"]))


def _resources_of(
    cluster: ClusterClient, where: Where, hello: Hello, api_version: str, kind: str
) -> list[Resource]:
    """Return what has the trial's label in its namespace; another user may run the same trial in another project."""
    labelled = cluster.find(api_version, kind, f"{HELLO}={hello.key}")
    spaces = {side.namespace for side in where.sides}
    return [found for found in labelled if found["metadata"]["namespace"] in spaces]


def _is_gone(cluster: ClusterClient, clock: Clock, where: Where, hello: Hello) -> bool:
    """Wait until earlier resources are deleted: their status and pods would count as this trial's."""
    kinds = {("v1", "Pod"), *((made["apiVersion"], made["kind"]) for made in hello.make(where))}
    began = clock.now()
    while any(_resources_of(cluster, where, hello, *kind) for kind in kinds):
        if clock.now() - began > GONE_S:
            return False
        clock.sleep(BEAT_S)
    return True


def _tried(cluster: ClusterClient, clock: Clock, where: Where, hello: Hello) -> CheckResult:
    if not _is_gone(cluster, clock, where, hello):
        cause = f"objects of an earlier trial still exist after {GONE_S:.0f} s"
        fix = f"kubectl -n {where.namespace} get all -l {HELLO}={hello.key} lists it; retry after it is deleted"
        return _result(hello, Status.NOT_ASSESSED, cause, fix)
    made = hello.make(where)
    for resource in made:
        cluster.apply(resource)
    last, began = made[-1], clock.now()
    pods: dict[str, Resource] = {}
    ended: bool | None = None
    while ended is None and clock.now() - began < PATIENCE_S:
        clock.sleep(BEAT_S)
        pods |= {
            p["metadata"]["name"]: p for p in _resources_of(cluster, where, hello, "v1", "Pod")
        }
        found = _resources_of(cluster, where, hello, last["apiVersion"], last["kind"])
        ended = next((hello.ended(item) for item in found), None)
        if why := next((w for p in pods.values() if (w := _no_image(p))), ""):
            fix = "copy it to your mirror, or set another image under workloads.images"
            return _result(hello, Status.FAIL, why, fix)
    return _judged(hello, where, ended, list(pods.values()), clock.now() - began)


def _judged(
    hello: Hello, where: Where, ended: bool | None, pods: list[Resource], seconds: float
) -> CheckResult:
    look = f"kubectl -n {where.namespace} get events; check the log of the add-on's operator"
    stray = [p for p in pods if not _through(p, where)]
    if stray:
        cause = f"pod {stray[0]['metadata']['name']} went past queue {where.queue}"
        fix = f"it must have schedulerName {where.scheduler} and label {QUEUE_LABEL}"
        return _result(hello, Status.FAIL, cause, fix)
    if ended is False:
        return _result(hello, Status.FAIL, hello.failed or "it failed", hello.fix or look)
    if not pods:
        cause = f"none of its pods was seen in {seconds:.0f} s"
        return _result(hello, Status.NOT_ASSESSED if ended else Status.FAIL, cause, look)
    if ended:
        evidence = f"{plural(len(pods), 'pod')} through queue {where.queue} in {seconds:.0f} s"
        return _result(hello, Status.PASS, evidence=evidence)
    waiting = [p for p in pods if not p["spec"].get("nodeName")]
    if waiting:
        cause = (
            f"{len(waiting)} of {len(pods)} pods waited {seconds:.0f} s: {_pod_message(waiting[0])}"
        )
        fix = f"try again when queue {where.queue} has room: appliance queue show"
        return _result(hello, Status.NOT_ASSESSED, cause, fix)
    return _result(hello, Status.FAIL, f"its pods run, but it did not end in {seconds:.0f} s", look)


def _through(pod: Resource, where: Where) -> bool:
    found = (pod["metadata"]["labels"].get(QUEUE_LABEL), pod["spec"].get("schedulerName"))
    return found in {(side.queue, side.scheduler) for side in where.sides}


def _no_image(pod: Resource) -> str:
    for container in pod.get("status", {}).get("containerStatuses") or []:
        waits = container.get("state", {}).get("waiting") or {}
        if waits.get("reason") in NO_IMAGE:
            return f"image {container.get('image', '')} cannot be pulled: {waits['reason']}"
    return ""


def _pod_message(pod: Resource) -> str:
    said = pod.get("status", {}).get("conditions") or []
    return next((c["message"] for c in said if c.get("message")), "no reason given")[:200]


def _result(
    hello: Hello, status: Status, cause: str = "", fix: str = "", evidence: str = ""
) -> CheckResult:
    check = f"workloads.{hello.key}"
    return judged(CLUSTER, status, cause=cause, fix=fix, evidence=evidence).of(check)
