"""Takes hosts out of Slurm for the time of a change, and back in: nobody's job is cut off."""

import time
from collections.abc import Sequence

from appliance.engine.session import Session
from appliance.errors import ApplianceError, CommandFailed, DeadlineExceeded
from appliance.models.site import Role

REASON = "appliance: GPUs are about to be divided"
"""Begins with the word by which stage slurm knows drains it may take back."""
PAUSE = 2.0


def drain(session: Session, hosts: Sequence[str], seconds: float) -> None:
    """No new jobs on these hosts, and waits until those there have ended.

    Raises DeadlineExceeded, naming the jobs, after taking the hosts back in; CommandFailed where Slurm refuses.
    """
    names = ",".join(hosts)
    _scontrol(session, f"NodeName={names}", "State=DRAIN", f"Reason={REASON}")
    deadline = time.monotonic() + seconds
    while jobs := _jobs(session, names):
        if time.monotonic() > deadline or session.cancelled.is_set():
            resume(session, hosts)
            raise DeadlineExceeded(
                f"jobs still run on {names} after {seconds / 60:g} min: {', '.join(jobs)}",
                "wait longer with --wait, or end them: scancel; the hosts take jobs again",
            )
        session.cancelled.wait(PAUSE)


def resume(session: Session, hosts: Sequence[str]) -> None:
    """Those of the hosts that are still drained for our reason take jobs again."""
    for host in hosts:
        said = _ask(session, ["scontrol", "--oneliner", "show", "node", host])
        if f"Reason={REASON}" in said:
            _scontrol(session, f"NodeName={host}", "State=RESUME")


def _jobs(session: Session, names: str) -> list[str]:
    said = _ask(session, ["squeue", "--noheader", "--nodelist", names, "--format=%A %u"])
    return [" of ".join(line.split()) for line in said.splitlines() if line.strip()]


def _scontrol(session: Session, *words: str) -> None:
    _ask(session, ["scontrol", "update", *words])


def _ask(session: Session, argv: list[str]) -> str:
    """A Slurm command on the controller. Raises CommandFailed, ApplianceError where there is no controller."""
    control = session.site.with_role(Role.CONTROL)
    if not control:
        raise ApplianceError(
            "no host has the role control, so Slurm cannot be asked to drain",
            "drain the hosts yourself, then leave out --drain",
        )
    done = session.remote.run(control[0].name, argv, timeout=60)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no reason given"]
        raise CommandFailed(
            f"{argv[0]}: {said[-1]}",
            "bring Slurm up: appliance deploy --stage slurm",
            control[0].name,
        )
    return done.stdout
