"""Runs a script on hosts: through Slurm if it owns them, otherwise over ssh, or through Kubernetes on request. Output is limited in size, and either complete or reported as incomplete.

A job of Slurm continues without the program (batch.py): a lost connection loses nothing, and a later run waits for it again.
"""

import hashlib
import math
import re
import secrets
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum

from appliance.adapters.pods import KILLED, OtherGpus, PodRemote, PodWork, Rank
from appliance.adapters.process import Completed
from appliance.adapters.remote import Remote
from appliance.benchmarks.batch import NEVER, Batch, Book, Job, Memory, Unended, through
from appliance.checks.check import View, judged, not_assessed
from appliance.errors import ConnectionFailed, DeadlineExceeded
from appliance.models.result import CheckResult, Place, Status
from appliance.models.site import Owner, Role
from appliance.stages.slurm.site import JobContainer
from appliance.text import first_few, one_line, shortened

LARGEST = 4 << 20
"""Bytes of output that are read of one host; the largest whole one seen, of DCGM with eight GPUs, has some 60 KB."""
START_SECONDS = 60
"""A host that Slurm does not free for longer is busy, which is no fault."""
GRACE_SECONDS = 30.0
"""Start, prolog and epilog of a job."""
SIDE_BY_SIDE = 16
LONGEST_NAMED = 100
"""Characters of hosts that a job's key names one by one."""
NOT_GIVEN = "Immediate allocation"
"""Slurm's state of an occupied host; Kubernetes' access (adapters/pods.py) uses it, too."""
OUT = ("ReqNodeNotAvail", "DOWN", "DRAIN", NEVER)
"""Slurm's words for hosts that it gives no work."""
NO_PMIX = "can not load PMIx library"
"""Message of Debian 12's srun if libpmix2 is installed: its plugin opens libpmix.so, which is in the development package."""
GET_PMIX = "apt-get install libpmix-dev on control and GPU hosts (Debian, Ubuntu); otherwise install Slurm's plugin for PMIx"
LABEL = re.compile(r"\s*([0-9]{1,9}): ?(.*)")
BEGIN = re.compile(r"appliance-begin host=(\S+)")
END = re.compile(r"appliance-end code=([0-9]{1,9}) size=([0-9]{1,18})")
ENDED = (124, 137)
"""Exit codes of timeout, and of a program that it had to kill."""
NO_PEER = "check there dmesg, nvidia-smi and ibstat; then run it again"
MISSING, SAID = "appliance-missing=", "appliance-said="

# $1 tools, $2 seconds, $3 script, then its arguments. The script's own time is also limited on the host, so that nothing
# keeps running when the connection is lost. srun --label breaks lines of more than 1,024 bytes in two (Slurm 22.05),
# at any position, so the output of the script is sent in short lines.
WRAP = f"""
export PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/cuda/bin:/opt/nccl-tests/build:/opt/nvbandwidth:$PATH"
echo "appliance-begin host=${{SLURMD_NODENAME:-$(hostname -s)}}"
for tool in $1; do
  command -v $(echo "$tool" | tr '|' ' ') >/dev/null 2>&1 || {{ echo "{MISSING}$tool"; exit 0; }}
done
d=$(mktemp -d) || exit 1
trap 'rm -rf "$d"' EXIT
seconds=$2 script=$3; shift 3
(cd "$d" && exec timeout -k 5 "$seconds" /bin/sh -c "$script" sh "$@" >out 2>err </dev/null); code=$?
head -c {LARGEST} "$d/out" | base64
tail -c 4000 "$d/err" | grep -v '^ *$' | tail -n 1 | cut -b -600 | sed 's/^/{SAID}/'
echo "appliance-end code=$code size=$(wc -c <"$d/out")"
exit $code
"""


class Trouble(StrEnum):
    """The reason why a host has no output."""

    NONE = ""
    NO_TOOL = "no tool"
    BUSY = "busy"
    SILENT = "silent"
    OVERDUE = "overdue"
    FAILED = "failed"
    CUT = "cut off"


UNKNOWN = frozenset({Trouble.NO_TOOL, Trouble.BUSY, Trouble.SILENT})
"""Troubles that are not faults of the measured component."""


@dataclass(frozen=True)
class Task:
    """A script for /bin/sh. ``seconds``: its time limit on the host. ``tools``: required programs, with the package of each.

    ``part``: its part of the benchmark, unique on the same hosts, because its job is found again by it.
    A tool may have several names: "all_reduce_perf|all_reduce_perf_mpi". ``gpus``: of each host, all of them allocated; 0: none
    are requested, but the job has the host exclusively. ``ranks``: MPI ranks on each host, joined through PMIx; the
    result is then the output of the first host's first rank. 0: no MPI, one task per host. ``contained``: in the
    container of the site's benchmarks, if it names one. ``port``: the programs of all hosts meet at this port of the
    first one; through Kubernetes they are started as one gang, with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and NODE_NAME.
    ``in_vain``: the exit code of a program that waited in vain for another host.
    """

    name: str
    script: str
    seconds: float
    tools: Mapping[str, str]
    part: str = ""
    arguments: tuple[str, ...] = ()
    gpus: int = 0
    ranks: int = 0
    contained: bool = False
    port: int = 0
    in_vain: int = 0


@dataclass(frozen=True)
class HostAccess:
    """The access to hosts, and the book of active jobs there."""

    remote: Remote
    book: Book = field(default_factory=Memory)


@dataclass(frozen=True)
class HostOutput:
    """The output of the script on one host, and how it ended. With ``trouble`` there is no output, and ``cause`` gives the reason."""

    output: str = ""
    code: int = 0
    last: str = ""
    trouble: Trouble = Trouble.NONE
    cause: str = ""
    fix: str = ""

    @property
    def reason(self) -> str:
        """Why it is no result: the trouble, or the program's last words."""
        return self.cause or self.last or f"exit code {self.code}"

    def verdict(self, check: str, at: Place | str, *, simulated: bool = False) -> CheckResult:
        """The result of a host that has nothing to read."""
        if self.trouble in UNKNOWN:
            return not_assessed(at, self.reason, fix=self.fix, simulated=simulated).of(check)
        fix = self.fix or "run it by hand on the host and check its output"
        shown = {"cause": self.reason, "fix": fix, "simulated": simulated}
        return judged(at, Status.ERROR, **shown).of(check)


def on_each(
    view: View, reach: HostAccess, task: Task, hosts: Sequence[str], *, in_turn: bool = False
) -> dict[str, HostOutput]:
    """The script on every host by itself: one that is down or busy spoils no other. ``in_turn``: one after the other."""
    with ThreadPoolExecutor(1 if in_turn else SIDE_BY_SIDE) as pool:
        said = pool.map(lambda host: together(view, reach, task, (host,))[host], hosts)
        return dict(zip(hosts, said, strict=True))


def together(
    view: View, reach: HostAccess, task: Task, hosts: Sequence[str]
) -> dict[str, HostOutput]:
    """The script on all of these hosts at the same time; those of Slurm in one job, those that meet in pods in one gang."""
    remote = reach.remote
    if task.port and isinstance(remote, PodRemote) and remote.hosts.issuperset(hosts):
        return _gang(remote, task, hosts)
    of_slurm = {host.name for host in view.site.gpu_hosts_of(Owner.SLURM)}
    by_job = [host for host in hosts if host in of_slurm]
    by_ssh = [host for host in hosts if host not in of_slurm]
    with ThreadPoolExecutor(max(1, len(by_ssh) + 1)) as pool:
        job = pool.submit(_job, view, reach, task, by_job) if by_job else None
        rest = list(pool.map(lambda host: _ssh(reach.remote, task, host), by_ssh))
        found = dict(zip(by_ssh, rest, strict=True)) | (job.result() if job else {})
    return {host: found[host] for host in hosts}


def as_one(view: View, reach: HostAccess, task: Task, hosts: Sequence[str]) -> HostOutput:
    """One program of MPI over all of these hosts: what its first rank printed, or the first trouble of a host."""
    said = together(view, reach, task, hosts).values()
    bad = next((one for one in said if one.trouble), None)
    return bad or max(said, key=lambda one: (bool(one.code), len(one.output)))


def batch(task: Task, hosts: Sequence[str], container: JobContainer | None = None) -> Batch:
    """The job: one task on each host, or its ranks of MPI; the hosts are its alone."""
    minutes = math.ceil((task.seconds + GRACE_SECONDS) / 60) + 1
    # If a rank dies, the others wait for it, so the step ends. Hosts that measure independently continue.
    gpus = (f"--gres=gpu:{task.gpus}",) if task.gpus else ()
    of_step = [f"--kill-on-bad-exit={int(task.ranks > 0)}", *gpus]
    of_step += ["--mpi=pmix"] if task.ranks else []
    of_step += [f"--container-image={container.image}"] if container else []
    if container and container.mounts:
        of_step.append(f"--container-mounts={','.join(container.mounts)}")
    options = (
        *(f"--nodes={len(hosts)}", f"--nodelist={','.join(hosts)}", "--exclusive", *gpus),
        *(f"--ntasks-per-node={task.ranks or 1}", f"--time={minutes}"),
    )
    return Batch(options, ("srun", *of_step, "--label", "--quiet", *_words(task)))


def _words(task: Task) -> list[str]:
    """The script in its wrapper."""
    bound = f"{task.seconds:g}"
    return [
        *("/bin/sh", "-c", WRAP, "appliance", " ".join(task.tools)),
        *(bound, task.script, *task.arguments),
    ]


def _job(view: View, reach: HostAccess, task: Task, hosts: Sequence[str]) -> dict[str, HostOutput]:
    controls = view.site.with_role(Role.CONTROL)
    if not controls:
        nobody = HostOutput(trouble=Trouble.SILENT, cause="the site has no control host")
        return dict.fromkeys(hosts, nobody)
    control, book = controls[0].name, reach.book
    chosen = view.site.slurm_options.containers
    container = chosen.benchmark if chosen and task.contained else None
    begin = book.now() + START_SECONDS
    job = Job(
        key=key(task, hosts),
        name=f"appliance-{task.name}-{secrets.token_hex(4)}",
        control=control,
        begin=begin,
        until=begin + task.seconds + 2 * GRACE_SECONDS,
    )
    if book.wait(0):
        stopped = HostOutput(
            trouble=Trouble.SILENT, cause="interrupted before it ran", fix=book.again
        )
        return dict.fromkeys(hosts, stopped)
    try:
        done = through(reach.remote, book, job, batch(task, hosts, container))
    except Unended as undone:
        return dict.fromkeys(hosts, _unended(task, undone, control))
    answers = _by_host(done.stdout)
    return {
        h: _read(task, answers[h]) if h in answers else _without_output(done, control)
        for h in hosts
    }


def key(task: Task, hosts: Sequence[str]) -> str:
    """The key by which the job of this task on these hosts is found again."""
    which = ",".join(hosts)
    if len(which) > LONGEST_NAMED:
        digest = hashlib.sha256(which.encode()).hexdigest()[:12]
        which = f"{len(hosts)} hosts {digest}"
    return " ".join(filter(None, (task.name, task.part, which)))


def _unended(task: Task, undone: Unended, control: str) -> HostOutput:
    """For a job that continues, did not get its hosts in time, did not end, or was not accepted."""
    if undone.goes_on:
        return HostOutput(trouble=Trouble.SILENT, cause=str(undone), fix=undone.fix)
    if undone.state.startswith("PENDING"):
        return _not_given(undone.state, control)
    if undone.state:
        cause = f"the job did not end within {task.seconds + 2 * GRACE_SECONDS:g} s, was {undone.state} and was cancelled"
        fix = "check slurmd's log on the hosts: a prolog or a host hangs"
        return HostOutput(trouble=Trouble.OVERDUE, cause=cause, fix=fix)
    return HostOutput(
        trouble=Trouble.FAILED, cause=f"it did not run the job: {undone}", fix=undone.fix
    )


def _not_given(said: str, control: str) -> HostOutput:
    if any(word in said for word in OUT):
        fix = f"on {control}: sinfo -R shows why"
        return HostOutput(
            trouble=Trouble.BUSY, cause=f"Slurm does not schedule work on it: {said}", fix=fix
        )
    return HostOutput(
        trouble=Trouble.BUSY, cause=f"it is busy: {said}", fix="squeue shows the owner"
    )


def _ssh(remote: Remote, task: Task, host: str) -> HostOutput:
    try:
        done = remote.run(host, _words(task), timeout=task.seconds + GRACE_SECONDS)
    except DeadlineExceeded as error:
        return HostOutput(
            "",
            0,
            "",
            Trouble.OVERDUE,
            error.message,
            "log in to the host and check for a hung disk or GPU",
        )
    except OtherGpus as error:
        return HostOutput("", 0, "", Trouble.FAILED, error.message, error.hint)
    except ConnectionFailed as error:
        return HostOutput("", 0, "", Trouble.SILENT, error.message, error.hint)
    if done.returncode and NOT_GIVEN in done.stderr:
        said = done.stderr.partition(f"{NOT_GIVEN}: ")[2]
        cause = f"Kubernetes does not schedule work on it: {shortened(one_line(said), 300)}"
        fix = f"kubectl describe node {host} shows its owner, and whether it is cordoned"
        return HostOutput("", 0, "", Trouble.BUSY, cause, fix)
    return _read(task, done.stdout.splitlines())


def _gang(remote: PodRemote, task: Task, hosts: Sequence[str]) -> dict[str, HostOutput]:
    """One pod on each host, started together. Where one fails, the others end, and are not blamed."""
    work = PodWork(_words(task), task.seconds + GRACE_SECONDS, on_host_network=True)
    try:
        ranks = remote.gang(hosts, work, task.port)
    except DeadlineExceeded as error:
        cause, fix = error.message, "log in to the host and check for a hung disk or GPU"
        return _stopped(hosts, error.host, HostOutput("", 0, "", Trouble.OVERDUE, cause, fix))
    except OtherGpus as error:
        said = HostOutput("", 0, "", Trouble.FAILED, error.message, error.hint)
        return _stopped(hosts, error.host, said)
    except ConnectionFailed as error:
        said = HostOutput("", 0, "", Trouble.BUSY, error.message, error.hint)
        return _stopped(hosts, error.host, said)
    if not any(rank.code for rank in ranks):
        return {rank.host: _read(task, rank.said.splitlines()) for rank in ranks}
    if culprit := _culprit(task, ranks):
        return _stopped(hosts, culprit.host, _of_failed(task, culprit))
    waited = next(_read(task, rank.said.splitlines()) for rank in ranks if rank.code)
    cause = f"the hosts did not reach each other: {waited.reason}"
    return dict.fromkeys(hosts, HostOutput("", waited.code, "", Trouble.FAILED, cause, NO_PEER))


def _culprit(task: Task, ranks: Sequence[Rank]) -> Rank | None:
    """The rank that made the others fail: it was killed, failed by itself, or still ran when all others had given up."""
    failed = [rank for rank in ranks if rank.code]
    own = [rank for rank in failed if rank.code != task.in_vain]
    if own:
        return max(own, key=lambda rank: (rank.code or 0) > KILLED)
    silent = [rank for rank in ranks if rank.code is None]
    return silent[0] if len(silent) == 1 else None


def _of_failed(task: Task, rank: Rank) -> HostOutput:
    if rank.code is None:
        cause = "its program did not respond, and the other hosts waited in vain"
        return HostOutput("", 0, "", Trouble.FAILED, cause, NO_PEER)
    if rank.code <= KILLED:
        return _read(task, rank.said.splitlines())
    cause = f"its pod was ended by signal {rank.code - KILLED}"
    return HostOutput("", rank.code, "", Trouble.CUT, cause, "check dmesg there for out of memory")


def _stopped(hosts: Sequence[str], culprit: str | None, said: HostOutput) -> dict[str, HostOutput]:
    """The output of the host that failed; the others of its gang have none."""
    if culprit not in hosts:
        return dict.fromkeys(hosts, said)
    rest = HostOutput(
        trouble=Trouble.SILENT, cause=f"it was stopped because {culprit} failed: {said.reason}"
    )
    return {host: said if host == culprit else rest for host in hosts}


def _by_host(stdout: str) -> dict[str, list[str]]:
    """Returns the lines of each host. srun labels them with the task's number; the task prints its host."""
    by_task: dict[str, list[str]] = {}
    for line in stdout.splitlines():
        if match := LABEL.fullmatch(line):
            by_task.setdefault(match[1], []).append(match[2])
    # Of several ranks on a host the first one counts: later ones are read first and overwritten.
    ordered = sorted(by_task.items(), key=lambda item: -int(item[0]))
    named = ((_first(BEGIN, lines), lines) for _, lines in ordered)
    return {match[1]: lines for match, lines in named if match}


def _first(pattern: re.Pattern[str], lines: Iterable[str]) -> re.Match[str] | None:
    return next((match for line in lines if (match := pattern.fullmatch(line.strip()))), None)


def _read(task: Task, lines: Sequence[str]) -> HostOutput:
    """Returns the text between the first line of the wrapper and its last."""
    begin = next((at for at, line in enumerate(lines) if BEGIN.fullmatch(line.strip())), None)
    if begin is None:
        cause = "the host did not run the requested command"
        return HostOutput(
            "", 0, "", Trouble.FAILED, cause, "a login script prints or exits: remove its output"
        )
    body, end = lines[begin + 1 :], END.fullmatch(lines[-1].strip())
    if len(body) == 1 and body[0].startswith(MISSING):
        tool = shortened(one_line(body[0][len(MISSING) :]), 60)
        cause, fix = f"{tool} is not there", task.tools.get(tool, f"install {tool}")
        return HostOutput("", 0, "", Trouble.NO_TOOL, cause, fix)
    if end is None:
        cause = "its output is incomplete: the task was killed, or the host was lost"
        return HostOutput(
            "", 0, "", Trouble.CUT, cause, "check dmesg there for out of memory, then run it again"
        )
    code, size = int(end[1]), int(end[2])
    spoke = len(body) > 1 and body[-2].startswith(SAID)
    lines = body[: -2 if spoke else -1]
    last = shortened(one_line(body[-2][len(SAID) :]), 300) if spoke else ""
    if size > LARGEST:
        cause = f"it printed {size} bytes, but the limit is {LARGEST}"
        return HostOutput("", code, last, Trouble.CUT, cause, "run it by hand and check its output")
    try:
        printed = b64decode("".join(line.strip() for line in lines), validate=True)
    except ValueError:
        printed = b""
    # Output that a child writes after the end does not change the end.
    if len(printed) != size and code not in ENDED:
        cause = f"only {len(printed)} of the {size} printed bytes arrived"
        fix = "run it again; if it fails again, check there dmesg (out of memory) and that base64 is installed (coreutils)"
        return HostOutput("", code, last, Trouble.CUT, cause, fix)
    output = printed.decode("utf-8", "replace")
    if code in ENDED:
        cause = f"it did not end within {task.seconds:g} s"
        return HostOutput(
            output,
            code,
            last,
            Trouble.OVERDUE,
            cause,
            "log in to the host and check for a hung disk or GPU",
        )
    return HostOutput(output, code, last)


def _without_output(done: Completed, control: str) -> HostOutput:
    """A host of the job that printed nothing."""
    words = [line for line in done.stderr.splitlines() if line.strip()]
    said = shortened(one_line(first_few(words, 2)), 300) or f"srun ended with {done.returncode}"
    if NO_PMIX in done.stderr:
        return HostOutput(
            "", 0, "", Trouble.NO_TOOL, "Slurm's plugin for PMIx does not load", GET_PMIX
        )
    if done.stderr.startswith(NEVER):
        return _not_given(said, control)
    return HostOutput(
        "", 0, "", Trouble.FAILED, f"it did not run the job: {said}", f"on {control}: sinfo -R"
    )
