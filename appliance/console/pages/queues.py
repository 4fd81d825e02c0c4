"""Page 4: who waits in queues and partitions, and why; then what each of them has."""

from collections.abc import Iterator

from rich.text import Text

from appliance.actions.hosts.partitions import Partition, PendingJob
from appliance.console.page import Page, Row, failure_lines, labelled
from appliance.console.state import State
from appliance.models.queue_plan import QueueUse, WaitingPod
from appliance.report.formatting import duration, one_line
from appliance.text import plural


def queues_page(state: State) -> Page:
    """Pods and jobs that wait, longest first; then queues of Kubernetes and partitions of Slurm."""
    head = failure_lines(state.waiting.failure)
    found = state.waiting.value
    if found is None:
        return Page("Queues", tuple(head), empty=f"queues {state.waiting.age(state.time)}")
    for missing in found.missing:
        fix = f" · fix: {one_line(missing.fix)}" if missing.fix else ""
        head.append(Text(f"{one_line(missing.cause)}{fix}"))
    head += [Text(said) for said in found.absent]
    pods = found.queues.waiting if found.queues else ()
    jobs = found.partitions.pending if found.partitions else ()
    told = []
    if found.queues:
        told.append(plural(len(pods), "pod waits", "pods wait"))
    if found.partitions:
        told.append(plural(len(jobs), "job waits", "jobs wait"))
    if told:
        head.append(Text(" · ".join(told), "bold"))
    rows = (
        *((pod.waits_s, _pod(pod)) for pod in pods),
        *((job.waits_s, _job(job)) for job in jobs),
    )
    waiting = [row for _, row in sorted(rows, key=lambda pair: -pair[0])]
    queues = map(_queue, found.queues.queues if found.queues else ())
    partitions = map(_partition, found.partitions.partitions if found.partitions else ())
    empty = "no queues and no partitions are known"
    return Page("Queues", tuple(head), (*waiting, *queues, *partitions), empty)


def _pod(pod: WaitingPod) -> Row:
    line = Text.assemble(
        (f"waits {duration(pod.waits_s):>8}  ", "yellow"),
        (f"pod {pod.namespace}/{pod.name}", "bold"),
        f"  {pod.queue}  {pod.requests}  {one_line(pod.cause)}",
    )
    asks = f"{pod.requests}, in queue {pod.queue} of pool {pod.pool or '?'}"
    detail = _detail(f"pod {pod.namespace}/{pod.name}", asks, pod.cause, pod.fix)
    return Row(f"pod {pod.namespace}/{pod.name}", line, tuple(detail))


def _job(job: PendingJob) -> Row:
    line = Text.assemble(
        (f"waits {duration(job.waits_s):>8}  ", "yellow"),
        (f"job {job.id} of {job.user}", "bold"),
        f"  {job.partition}  {job.wants}  {one_line(job.cause)}",
    )
    asks = f"{job.wants}, in partition {job.partition}"
    detail = _detail(f"job {job.id} of {job.user}: {job.name}", asks, job.cause, job.fix)
    return Row(f"job {job.id}", line, tuple(detail))


def _detail(name: str, asks: str, cause: str, fix: str) -> Iterator[Text]:
    yield Text(name, "bold")
    yield labelled("requests", asks)
    yield labelled("why it waits", cause)
    if fix:
        yield labelled("fix", fix)


def _queue(use: QueueUse) -> Row:
    """GPUs: allocated of guaranteed. A queue that the cluster does not report is unknown, not idle."""
    most = "no limit" if use.gpu_limit is None else f"at most {use.gpu_limit:g}"
    used = f"{_known(use.gpu_allocated)} allocated, {_known(use.gpu_requested)} requested"
    told = f"{used}, {use.gpu_quota:g} guaranteed, {most}"
    line = Text.assemble((f"queue {use.name}", "bold"), f"  pool {use.pool}  GPUs: {told}")
    if use.waiting:
        line.append(f"  {plural(use.waiting, 'pod waits', 'pods wait')}", "yellow")
    return Row(
        f"queue {use.name}", line, (Text(f"queue {use.name}", "bold"), labelled("GPUs", told))
    )


def _known(gpus: float | None) -> str:
    return "?" if gpus is None else f"{gpus:g}"


def _partition(one: Partition) -> Row:
    hosts = ", ".join(f"{count} {state}" for state, count in one.hosts)
    name = f"partition {one.name}"
    line = Text.assemble((name, "bold"), f"  {one.available}  hosts: {hosts}")
    return Row(
        name, line, (Text(name, "bold"), labelled("state", one.available), labelled("hosts", hosts))
    )
