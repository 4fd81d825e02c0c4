"""Who runs a burn-in: a batch job of Slurm, or Jobs of Kubernetes. Both continue without this program, and are found again."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from appliance.adapters.pods import PodRemote, PodWork
from appliance.adapters.remote import Remote
from appliance.checks.check import View
from appliance.errors import ApplianceError, ConnectionFailed, DeadlineExceeded
from appliance.models.gpu_counts import gpu_least
from appliance.text import one_line, shortened

NAME = "appliance-burnin"
FOLDER = "/var/lib/appliance/burnin"
SCRIPT = Path(__file__).with_name("burn.py")
PORT = 29511
MOST_SAMPLES = 2000
"""Maximum number of samples per host. With eight GPUs a sample needs about 1.2 KB, so the output stays below its limit."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PENDING = "PENDING"
LATEST = 1200.0
"""Seconds after its end at which the scheduler ends it."""
CLEAN = f"mkdir -p -m 700 {FOLDER}; rm -f {FOLDER}/judged {FOLDER}/samples.jsonl"

# One program a host; the samples stay on the host, so that nothing is lost with a connection.
BATCH = """#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin SLURM_EXPORT_ENV=ALL
export MASTER_ADDR={address} MASTER_PORT={port}
srun --kill-on-bad-exit=0 --chdir=/ sh -c '{clean}'
srun --kill-on-bad-exit=0 --chdir=/ {container} python3 -c "$(cat <<'APPLIANCE_END'
{program}
APPLIANCE_END
)" {folder} {seconds} {interval}
"""


@dataclass(frozen=True)
class BurnInRequest:
    """One burn-in: the control host, its hosts, and its duration in seconds."""

    control: str
    hosts: tuple[str, ...]
    seconds: float

    @property
    def words(self) -> tuple[str, str, str]:
        """The arguments of the program on the hosts."""
        interval = max(10.0, self.seconds / MOST_SAMPLES)
        return FOLDER, f"{self.seconds:g}", f"{interval:g}"


class Undone(Exception):
    """The reason why there is nothing to judge; ``fix``: the remedy."""

    def __init__(self, why: str, fix: str, *, is_error: bool = False) -> None:
        super().__init__(why)
        self.fix, self.is_error = fix, is_error


class Keeper(Protocol):
    """A scheduler that runs the burn-in. ``busy``, ``hangs``, ``again``: remedies."""

    @property
    def name(self) -> str:
        """Who is asked for the state."""
        ...

    busy: str
    hangs: str
    again: str

    def state(self) -> str | None:
        """PENDING, another state while it runs, "" if there is none, None if unknown."""
        ...

    def submit(self) -> None:
        """Raises Undone if the scheduler does not take it."""
        ...

    def cancel(self) -> None:
        """Ends it; no error if the scheduler does not answer."""
        ...


@dataclass(frozen=True)
class OfSlurm:
    """One batch job on all hosts."""

    view: View
    remote: Remote
    wanted: BurnInRequest
    busy = "squeue shows the owner"
    hangs = "check slurmd's log on the hosts: one of them hangs"
    again = "it continues there; to wait for it again: appliance validate burnin"

    @property
    def name(self) -> str:
        """See Keeper."""
        return self.wanted.control

    def state(self) -> str | None:
        """See Keeper."""
        argv = ["squeue", "--me", "--noheader", f"--name={NAME}", "--format=%T"]
        said = ask(self.remote, self.wanted.control, argv)
        return None if said is None else said.strip().partition("\n")[0]

    def submit(self) -> None:
        """See Keeper."""
        wanted = self.wanted
        minutes = int((wanted.seconds + LATEST) // 60)
        argv = [
            *(
                "sbatch",
                f"--job-name={NAME}",
                f"--nodes={len(wanted.hosts)}",
                "--ntasks-per-node=1",
            ),
            *(f"--nodelist={','.join(wanted.hosts)}", "--exclusive", "--no-requeue"),
            *(f"--gres=gpu:{gpu_least(self.view.profile, self.view.site)}", f"--time={minutes}"),
            *("--chdir=/", "--export=NONE", "--output=/dev/null", "--parsable"),
        ]
        script = batch(self.view, wanted).encode()
        try:
            done = self.remote.run(wanted.control, argv, input=script, timeout=60)
        except (ConnectionFailed, DeadlineExceeded) as error:
            raise Undone(error.told_of(), error.hint) from None
        if done.returncode:
            said = shortened(one_line(done.stderr.strip() or "no reason given"), 300)
            fix = f"on {wanted.control}: sinfo -R"
            raise Undone(f"sbatch ended with {done.returncode}: {said}", fix, is_error=True)

    def cancel(self) -> None:
        """See Keeper."""
        ask(self.remote, self.wanted.control, ["scancel", f"--name={NAME}"])


@dataclass(frozen=True)
class OfPods:
    """One Job on each host, in the host's network."""

    view: View
    remote: PodRemote
    wanted: BurnInRequest
    name = "the API server of Kubernetes"
    busy = "kubectl describe node shows what uses a host, and whether it is cordoned"
    hangs = f"kubectl -n appliance-benchmarks get pods -l appliance/work={NAME} -o wide"
    again = (
        "it continues there; to wait for it again: appliance validate burnin --through kubernetes"
    )

    def state(self) -> str | None:
        """See Keeper."""
        return self.remote.state_of(NAME)

    def submit(self) -> None:
        """See Keeper."""
        wanted = self.wanted
        first = str(self.view.site.host(wanted.hosts[0]).address)
        program = SCRIPT.read_text(encoding="utf-8")
        script = f'{CLEAN}; program=$1; shift; exec python3 -c "$program" "$@"'
        work = PodWork(
            ("/bin/sh", "-c", script, "appliance", program, *wanted.words),
            wanted.seconds + LATEST,
            variables={"MASTER_ADDR": first, "PATH": PATH},
            on_host_network=True,
            label=NAME,
        )
        try:
            self.remote.start(wanted.hosts, work, PORT)
        except ApplianceError as error:
            self.cancel()
            raise Undone(error.told_of(), error.hint, is_error=True) from None

    def cancel(self) -> None:
        """See Keeper."""
        self.remote.end(NAME)


def batch(view: View, wanted: BurnInRequest) -> str:
    """The job's script."""
    chosen = view.site.slurm_options.containers and view.site.slurm_options.containers.benchmark
    container = ""
    if chosen:
        mounts = ",".join((f"{FOLDER}:{FOLDER}", *chosen.mounts))
        container = f"--container-image='{chosen.image}' --container-mounts='{mounts}'"
    folder, seconds, interval = wanted.words
    return BATCH.format(
        address=view.site.host(wanted.hosts[0]).address,
        port=PORT,
        clean=CLEAN,
        folder=folder,
        container=container,
        program=SCRIPT.read_text(encoding="utf-8"),
        seconds=seconds,
        interval=interval,
    )


def ask(remote: Remote, host: str, argv: Sequence[str]) -> str | None:
    """Returns the output; None if the host or the program did not answer."""
    try:
        done = remote.run(host, argv, timeout=60)
    except ApplianceError:
        return None
    return done.stdout if done.returncode == 0 else None
