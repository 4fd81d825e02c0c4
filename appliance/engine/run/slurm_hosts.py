"""Nodes and jobs of Slurm, through its own commands on the controller."""

import re
from collections.abc import Iterable, Sequence

from appliance.adapters.process import Completed
from appliance.engine.run.schedulers import Ours, SchedulerHost, Workload, is_ours, runs
from appliance.engine.session import Session
from appliance.errors import ApplianceError, CommandFailed
from appliance.models.drain import GIVEN_AWAY
from appliance.models.site import Owner, Role
from appliance.stages.slurm.checks import is_out, state_words

STATE = re.compile(r"\bState=(\S+)")
REASON = re.compile(r"\bReason=(.*?)(?: \[[^\]]*\])?$")
BUSY = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING,STOPPED"
UNKNOWN = "not found"


class SlurmHosts:
    """A Scheduler."""

    owner = Owner.SLURM

    def __init__(self, session: Session) -> None:
        self._session = session
        self._desks = [host.name for host in session.site.with_role(Role.CONTROL)]

    def look(self, host: str) -> SchedulerHost | None:
        """See Scheduler."""
        state, reason = self._node(host)
        if not state:
            return None
        owner = None if is_ours(reason) else Owner.SLURM
        if reason.startswith(GIVEN_AWAY):
            owner = Owner(reason.removeprefix(GIVEN_AWAY))
        said = state.lower() + (f" ({reason})" if reason else "")
        gives = not is_out(state) and "not_responding" not in state_words(state)
        return SchedulerHost(owner, gives, said, tuple(map(str, _work(self._jobs(host)))), reason)

    def take_out(self, host: str, why: str, over: Ours | None = None) -> None:
        """See Scheduler."""
        state, reason = self._node(host)
        if state and (not is_out(state) or (over or is_ours)(reason)) and reason != why:
            self._ask("scontrol", "update", f"NodeName={host}", "State=DRAIN", f"Reason={why}")

    def clear(self, host: str, force: bool) -> list[Workload]:
        """See Scheduler."""
        if not self._node(host)[0]:
            return []
        jobs = self._jobs(host)
        if jobs and force:
            # A job that ends at this moment is not a failure; the next check shows what is left.
            self._run(["timeout", "20", "scancel", *(number for number, _ in jobs)])
        return _work(jobs)

    def give_back(self, host: str, ours: Ours | None = None) -> None:
        """See Scheduler."""
        state, reason = self._node(host)
        if is_out(state) and (ours or is_ours)(reason):
            self._ask("scontrol", "update", f"NodeName={host}", "State=RESUME")

    def forget(self, host: str) -> None:
        """See Scheduler. slurm.conf lists the nodes; a deployment without the host writes it."""

    def _node(self, host: str) -> tuple[str, str]:
        """Return state and reason; empty if Slurm does not know the host, or is not installed."""
        argv = ["timeout", "20", "scontrol", "--oneliner", "show", "node", host]
        done = self._run(argv)
        if done.returncode:
            said = _last(done.stderr, done.stdout)
            if _is_unknown(done):
                return "", ""
            if runs(self._session, host, "slurmd"):
                raise CommandFailed(
                    f"slurmd runs on {host}, but slurmctld did not report this node ({said})",
                    "jobs may run there: repair slurmctld, or stop slurmd",
                    self._desks[0],
                )
            return "", ""
        state, reason = STATE.search(done.stdout), REASON.search(done.stdout.strip())
        if not state:
            said = _last(done.stdout, done.stderr)
            raise CommandFailed(
                f"scontrol printed no state for {host}: {said}", "run it there", self._desks[0]
            )
        return state.group(1), reason.group(1).strip() if reason else ""

    def _jobs(self, host: str) -> list[tuple[str, str]]:
        """Return job numbers and users."""
        flags = ("--noheader", f"--nodelist={host}", f"--states={BUSY}", "--format=%A of %u")
        lines = (line.partition(" of ") for line in self._ask("squeue", *flags).splitlines())
        return [(number.strip(), user.strip()) for number, _, user in lines if number]

    def _ask(self, *words: str) -> str:
        done = self._run(["timeout", "20", *words])
        if done.returncode:
            said = _last(done.stderr, done.stdout)
            hint = "start Slurm: appliance deploy --stage slurm"
            raise CommandFailed(f"{words[0]}: {said}", hint, self._desks[0])
        return done.stdout

    def _run(self, argv: Sequence[str]) -> Completed:
        """Run the command on the first control host that answers, which is tried first from then on; else return the first host's failure."""
        failures: list[Completed | ApplianceError] = []
        for desk in tuple(self._desks):
            try:
                done = self._session.remote.run(desk, argv)
            except ApplianceError as error:
                failures.append(error)
                continue
            if not done.returncode or _is_unknown(done):
                self._desks.sort(key=lambda name: name != desk)
                return done
            failures.append(done)
        told = next((f for f in failures if isinstance(f, Completed)), failures[0])
        if isinstance(told, ApplianceError):
            raise told
        return told


def _work(jobs: Iterable[tuple[str, str]]) -> list[Workload]:
    return [Workload(f"job {number} of {user}") for number, user in jobs]


def _is_unknown(done: Completed) -> bool:
    """Return whether Slurm answered that the node does not exist."""
    return UNKNOWN in f"{done.stdout} {done.stderr}" and done.returncode != 127


def _last(*texts: str) -> str:
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
