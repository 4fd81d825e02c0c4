"""Hosts out of Slurm and back: jobs end by themselves, and nobody else's drain is taken back."""

from collections.abc import Sequence

import pytest

from appliance.adapters.process import Completed
from appliance.engine import drain as draining
from appliance.engine.drain import REASON, drain, resume
from appliance.engine.session import Session
from appliance.errors import CommandFailed, DeadlineExceeded
from tests.unit.engine.world import FakeHosts


def says(hosts: FakeHosts, *jobs: str, reason: str = REASON, code: int = 0) -> None:
    """Slurm with these jobs at each question in turn, the last for good."""
    left = list(jobs)

    def answer(host: str, argv: Sequence[str]) -> Completed:
        assert host == "head"
        if argv[0] == "squeue":
            return Completed(tuple(argv), 0, left.pop(0) if len(left) > 1 else left[0], "")
        said = f"NodeName=gpu-1 State=IDLE+DRAIN Reason={reason} [root@t]" if "show" in argv else ""
        return Completed(
            tuple(argv), code, said, "slurm_update error: Invalid node" if code else ""
        )

    hosts.answer = answer


def asked(hosts: FakeHosts) -> list[str]:
    return [" ".join(argv[2:]) for _, argv, _ in hosts.calls if argv[:2] == ("scontrol", "update")]


def test_waits_until_the_last_job_has_ended(
    session: Session, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "PAUSE", 0.0)
    says(hosts, "7 ada\n8 bob\n", "7 ada\n", "")
    drain(session, ("gpu-1", "gpu-2"), 60)
    assert asked(hosts) == [f"NodeName=gpu-1,gpu-2 State=DRAIN Reason={REASON}"]
    assert sum(argv[0] == "squeue" for _, argv, _ in hosts.calls) == 3


def test_jobs_that_do_not_end_are_named_and_the_host_takes_jobs_again(
    session: Session, hosts: FakeHosts
) -> None:
    says(hosts, "7 ada\n")
    with pytest.raises(DeadlineExceeded, match=r"after 0 min: 7 of ada"):
        drain(session, ("gpu-1",), 0)
    assert asked(hosts)[-1] == "NodeName=gpu-1 State=RESUME"


def test_a_drain_of_somebody_else_stays(session: Session, hosts: FakeHosts) -> None:
    says(hosts, "", reason="bad fan")
    resume(session, ("gpu-1",))
    assert asked(hosts) == []


def test_what_slurm_refuses_is_said(session: Session, hosts: FakeHosts) -> None:
    says(hosts, "", code=1)
    with pytest.raises(CommandFailed, match="Invalid node"):
        drain(session, ("gpu-1",), 60)
