#!/usr/bin/python3
# Managed by appliance; changes here are undone.
"""Writes what Slurm says of hosts, partitions, accounts and jobs into a file for the node exporter.

Usage: slurm_metrics.py FOLDER. Standard library only; format: Prometheus text exposition 0.0.4.

Users name their jobs as they like, with line breaks, separators and bytes that are no text. So each row ends with a mark of
this run, which nobody could know when the job was named; what cannot be read costs its own row; and counts are bounded.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess  # noqa: TID251 - runs on the host, where only the standard library is
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Run = Callable[[tuple[str, ...]], "str | None"]

PATIENCE = 10
STATES = ("running", "pending")
LENT = "appliance: a host of "
"""Reason by which Slurm keeps its jobs off a host that somebody else gives work."""
MARK, NODE_MARK = (f"|{secrets.token_hex(16)}|" for _ in range(2))
"""End a row. sinfo and squeue print behind a field whatever follows its width."""
FORMAT = {"squeue": "SQUEUE_FORMAT2"}
"""By program the variable that stands for -O (squeue(1)). Every user reads the arguments of a process, and may rename a job while it starts."""
NODES = (
    "sinfo", "-a", "-h", "-N",
    "-O", "NodeList:.120|,Partition:.80|,StateLong:.40|,Gres:.120|,GresUsed:.120|,CPUsState:.60|,Reason:.80" + NODE_MARK,
)  # fmt: skip
JOBS = (
    "squeue", "-a", "-h", "-t", "running,pending,suspended,completing",
    "-O", "JobArrayID:.60|,Partition:.120|,State:.20|,Account:.80|,UserName:.80|,NumNodes:.20|,NumCPUs:.20|,"
    "tres-alloc:.400|,tres-per-node:.200|,SubmitTime:.30|,StartTime:.30|,NodeList:.2000|,Name:.120" + MARK,
)  # fmt: skip
MOST_LABEL, MOST_HOSTS = 120, 20000
MOST_RUNNING, MOST_WAITING = 10000, 100
"""Jobs told of one by one: of all users together, and waiting ones of each user. Sums count all."""
SHARES = ("sshare", "-n", "-P", "-o", "Account,User,NormShares,EffectvUsage,RawUsage")
ENDED = ("sacct", "-a", "-X", "-n", "-P", "-S", "now-1hours", "-E", "now", "-o", "State")
FINAL = ("completed", "failed", "timeout", "cancelled", "node_fail", "out_of_memory", "preempted")


class Metrics:
    """Samples by family, each family once and together, and each series once, as the format asks: else none is taken."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[str, dict[str, float]]] = {}

    def add(self, name: str, text: str, value: float, **labels: str) -> None:
        told = ",".join(f'{key}="{escaped(said)}"' for key, said in labels.items())
        series = f"{name}{{{told}}}" if told else name
        self._families.setdefault(name, (text, {}))[1].setdefault(series, value)

    def text(self) -> str:
        lines: list[str] = []
        for name, (text, samples) in self._families.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
            lines += [f"{series} {value:.16g}" for series, value in samples.items()]
        return "".join(f"{line}\n" for line in lines)


def escaped(value: str) -> str:
    """On one line, without control characters, of bounded length."""
    shown = "".join(c if c.isprintable() else " " for c in value)[:MOST_LABEL]
    return shown.replace("\\", "\\\\").replace('"', '\\"')


def rows(text: str, count: int, mark: str) -> list[list[str]]:
    """Rows of COUNT cells, each ended by "|", the last one by MARK; it may hold whatever a user calls a job."""
    found = []
    for row in text.split(mark):
        cells = [cell.strip() for cell in row.split("|", count - 1)]
        if len(cells) == count:
            found.append(cells)
    return found


def each(cells: list[list[str]], read: Callable[..., None]) -> None:
    """Each row by itself: one that cannot be read spoils no other."""
    bad = 0
    for row in cells:
        try:
            read(*row)
        except (ValueError, OverflowError):
            bad += 1
    if bad:
        sys.stderr.write(f"{bad} of {len(cells)} rows could not be read\n")


def gpus(gres: str) -> int:
    """GPUs of "gpu:a100:8(S:0-1)", "gres:gpu:4" or "cpu=1,gres/gpu=16,gres/gpu:a100=16"; else 0."""
    if "=" in gres:
        total = re.search(r"gres/gpu=(\d+)", gres)
        typed = re.findall(r"gres/gpu:[^=,]+=(\d+)", gres)
        return int(total[1]) if total else sum(map(int, typed))
    count = 0
    for word in re.sub(r"\([^)]*\)", "", gres).split(","):
        parts = re.sub(r"^gres[:/]", "", word).split(":")
        if parts[0] == "gpu":
            count += int(parts[-1]) if parts[-1].isdigit() else 1
    return count


def plain(state: str) -> str:
    """ "idle" of "idle*": the flags behind a state say nothing of its jobs."""
    return re.sub(r"[^a-z_]", "", state.split("+")[0].lower())


def default_too(partition: str) -> str:
    """The name of a partition; sinfo marks the default one with a star."""
    return partition.removesuffix("*")


def hosts(text: str) -> list[str]:
    """Names of "head,gpu-[01-03,7]"."""
    names: list[str] = []
    for prefix, ranges in re.findall(r"([^,\[\]]+)(?:\[([^\]]*)\])?", text):
        if not ranges:
            names.append(prefix)
        for part in filter(None, ranges.split(",")):
            first, _, last = part.partition("-")
            numbers = range(int(first), int(last or first) + 1)
            names += [f"{prefix}{number:0{len(first)}d}" for number in numbers[:MOST_HOSTS]]
    return names[:MOST_HOSTS]


def number(text: str) -> int:
    """A count as Slurm prints it: "4096", "4K"; nothing is 0. Raises ValueError."""
    found = re.fullmatch(r"([0-9]{0,15})([KMG]?)", text, re.ASCII)
    if not found:
        raise ValueError(text)
    return int(found[1] or 0) * {"": 1, "K": 1024, "M": 1 << 20, "G": 1 << 30}[found[2]]


def seconds(text: str) -> float | None:
    """A point in time Slurm printed, local time; None of "N/A" and "Unknown"."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def of_nodes(metrics: Metrics, text: str) -> None:
    nodes: set[str] = set()
    partitions: dict[str, list[int]] = {}
    states: dict[tuple[str, str], int] = {}

    def node(
        name: str, listed: str, told: str, gres: str, used: str, cpus: str, reason: str
    ) -> None:
        allocated, _, _, all_cpus = map(number, (*cpus.split("/"), "0", "0", "0", "0")[:4])
        partition = default_too(listed)
        have, busy = gpus(gres), gpus(used)
        lent = reason.startswith(LENT)
        state = "lent" if lent else plain(told)
        total = partitions.setdefault(partition, [0, 0])
        total[0] += 0 if lent else have
        total[1] += busy
        states[partition, state] = states.get((partition, state), 0) + 1
        if name in nodes:
            return
        nodes.add(name)
        metrics.add("slurm_node_state", "1 for the state a host has", 1, node=name, state=state)
        metrics.add("slurm_node_gpus", "GPUs of a host", have, node=name)
        metrics.add("slurm_node_gpus_allocated", "GPUs of a host given to jobs", busy, node=name)
        metrics.add("slurm_node_cpus", "Processors of a host", all_cpus, node=name)
        metrics.add("slurm_node_cpus_allocated", "Processors given to jobs", allocated, node=name)

    each(rows(text, 7, NODE_MARK), node)
    for (partition, state), count in states.items():
        metrics.add(
            "slurm_partition_nodes", "Hosts by state", count, partition=partition, state=state
        )
    for partition, (have, busy) in partitions.items():
        metrics.add("slurm_partition_gpus", "GPUs of a partition", have, partition=partition)
        metrics.add(
            "slurm_partition_gpus_allocated", "GPUs given to jobs", busy, partition=partition
        )


class Job:
    """One row of squeue. Raises ValueError."""

    def __init__(self, *cells: str) -> None:
        self.id, self.partition, state, self.account, self.user = cells[:5]
        self.nodes, self.cpus = number(cells[5]), number(cells[6])
        self.state = plain(state)
        asked = gpus(cells[8]) * max(1, self.nodes)
        self.gpus = gpus(cells[7]) or asked
        self.submitted, self.started = seconds(cells[9]), seconds(cells[10])
        self.hosts = hosts(cells[11]) if self.state != "pending" else []
        self.name = cells[12]


def of_jobs(metrics: Metrics, text: str, partitions: Iterable[str], now: float) -> None:
    jobs: list[Job] = []
    each(rows(text, 13, MARK), lambda *cells: jobs.append(Job(*cells)))
    waits = dict.fromkeys(partitions, 0.0)
    by_partition = {(name, state): 0 for name in waits for state in STATES}
    by_account: dict[tuple[str, str], int] = {}
    account_gpus: dict[str, int] = {}
    for job in jobs:
        for partition in job.partition.split(","):
            key = (partition, job.state)
            by_partition[key] = by_partition.get(key, 0) + 1
            if job.state == "pending" and job.submitted is not None:
                waits[partition] = max(waits.get(partition, 0.0), now - job.submitted)
        by_account[job.account, job.state] = by_account.get((job.account, job.state), 0) + 1
        if job.state != "pending":
            account_gpus[job.account] = account_gpus.get(job.account, 0) + job.gpus
    for job in shown(jobs):
        of_job(metrics, job)
    for (partition, state), count in by_partition.items():
        metrics.add(
            "slurm_partition_jobs", "Jobs by state", count, partition=partition, state=state
        )
    for partition, wait in waits.items():
        metrics.add(
            "slurm_partition_oldest_pending_seconds",
            "How long the job that waits longest has waited",
            wait,
            partition=partition,
        )
    for (account, state), count in by_account.items():
        metrics.add("slurm_account_jobs", "Jobs of an account", count, account=account, state=state)
    for account, count in account_gpus.items():
        metrics.add("slurm_account_gpus", "GPUs its jobs hold", count, account=account)


def shown(jobs: list[Job]) -> Iterator[Job]:
    """Those that are told of one by one: a user who submits without end shuts out nobody else's."""
    running, waiting = 0, {}  # type: int, dict[str, int]
    for job in jobs:
        if job.state == "pending":
            waiting[job.user] = waiting.get(job.user, 0) + 1
            if waiting[job.user] <= MOST_WAITING:
                yield job
        elif running < MOST_RUNNING:
            running += 1
            yield job


def of_job(metrics: Metrics, job: Job) -> None:
    who = {"jobid": job.id, "job_name": job.name, "user": job.user, "account": job.account}
    where = {"partition": job.partition, "state": job.state}
    metrics.add("slurm_job_gpus", "GPUs a job holds or asks for", job.gpus, **who, **where)
    metrics.add("slurm_job_cpus", "Processors a job holds or asks for", job.cpus, **who, **where)
    if job.submitted is not None:
        metrics.add("slurm_job_submit_time_seconds", "When it was submitted", job.submitted, **who)
    if job.started is not None and job.state != "pending":
        metrics.add("slurm_job_start_time_seconds", "When it began", job.started, **who)
    for host in job.hosts:
        metrics.add("slurm_job_node", "1 for each host of a job", 1, jobid=job.id, node=host)


def of_shares(metrics: Metrics, text: str) -> None:
    def share(account: str, user: str, meant: str, used: str, _: str) -> None:
        if user.strip() or account.strip() == "root":
            return
        for name, what, cell in (
            ("slurm_account_share", "Part of the cluster an account is meant to have", meant),
            ("slurm_account_usage", "Part it has used, older use counting less", used),
        ):
            if cell.strip():
                metrics.add(name, what, float(cell), account=account.strip())

    each([line.split("|") for line in text.split("\n") if line.count("|") == 4], share)


def of_ended(metrics: Metrics, text: str) -> None:
    counts = dict.fromkeys(FINAL, 0)
    for line in text.split("\n"):
        words = line.lower().split()
        if words and words[0] in counts:
            counts[words[0]] += 1
    for state, count in counts.items():
        metrics.add("slurm_jobs_ended", "Jobs that ended within the last hour", count, state=state)


def exposition(run: Run, now: float) -> str:
    """Everything Slurm told; what does not answer is told as such and leaves the rest whole."""
    metrics = Metrics()
    nodes, jobs = run(NODES), run(JOBS)
    up = nodes is not None and jobs is not None
    metrics.add("slurm_up", "1 where Slurm's controller answers", up)
    if nodes is not None and jobs is not None:
        of_nodes(metrics, nodes)
        of_jobs(metrics, jobs, {default_too(cells[1]) for cells in rows(nodes, 6, NODE_MARK)}, now)
        of_shares(metrics, run(SHARES) or "")
    ended = run(ENDED)
    metrics.add("slurm_accounting_up", "1 where Slurm's accounting answers", ended is not None)
    if ended is not None:
        of_ended(metrics, ended)
    return metrics.text()


def hidden(command: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command, and the format that ends rows of jobs in a variable: only root reads the environment of root's processes."""
    variable = FORMAT.get(command[0])
    return (command[:-2], {variable: command[-1]}) if variable else (command, {})


def ask(command: tuple[str, ...]) -> str | None:
    """What a command printed; None where it failed or hung."""
    argv, variables = hidden(command)
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            timeout=PATIENCE,
            check=True,
            env={**os.environ, **variables},
        )
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"{command[0]}: {type(error).__name__}\n")
        return None
    return done.stdout.decode("utf-8", "replace")


def main(folder: str) -> None:
    """Writes FOLDER/slurm.prom whole; where Slurm is not installed there is nothing to tell."""
    text = exposition(ask, time.time()) if shutil.which("sinfo") else ""
    new = os.path.join(folder, "slurm.prom.new")
    # Into a file of its own, whatever has that name already.
    with suppress(FileNotFoundError):
        os.unlink(new)
    made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with open(made, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(new, os.path.join(folder, "slurm.prom"))


if __name__ == "__main__":
    main(sys.argv[1])
