"""Takes this host out of Slurm for the time its driver is changed, and puts it back."""

from __future__ import annotations

import re
import time
from typing import Any

OURS = "appliance: driver"
"""How the reason of a drain of ours begins; any other drain is somebody else's and stays."""

OUT = re.compile(r"DRAIN|DOWN|FAIL")
BUSY = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING,STOPPED"


class Slurm:
    """The door to Slurm, for one host."""

    def __init__(self, module: Any, name: str) -> None:
        self.module = module
        self.name = name

    def look(self) -> tuple[str, str]:
        """State and reason of this host; empty where Slurm does not know it or is not installed."""
        if self.module.get_bin_path("scontrol") is None:
            return "", ""
        code, out, _ = self._run("scontrol", "--oneliner", "show", "node", self.name)
        if code:
            return "", ""
        state = re.search(r"\bState=(\S+)", out)
        reason = re.search(r"\bReason=(.*?) \[", out)
        return state.group(1) if state else "", reason.group(1) if reason else ""

    def drain(self, why: str) -> bool:
        """Let no new job in. Gives whether the drain is ours, and so ours to take back."""
        state, reason = self.look()
        if not state:
            self._refuse_silence()
            return False
        if OUT.search(state):
            return reason.startswith(OURS)
        code, _, err = self._run(
            "scontrol", "update", f"NodeName={self.name}", "State=DRAIN", f"Reason={OURS} {why}"
        )
        if code:
            self.module.fail_json(msg=f"{self.name} cannot be drained: {_last(err)}")
        return True

    def jobs(self) -> list[str]:
        """Jobs that run here, as "12 of ada"."""
        if not self.look()[0]:
            return []
        code, out, err = self._run(
            "squeue",
            "--noheader",
            f"--nodelist={self.name}",
            f"--states={BUSY}",
            "--format=%A of %u",
        )
        if code:
            self.module.fail_json(msg=f"Slurm does not tell which jobs run here: {_last(err)}")
        return [line.strip() for line in out.splitlines() if line.strip()]

    def wait(self, seconds: float) -> list[str]:
        """The jobs that are left when none is, or the time is over."""
        end = time.monotonic() + seconds
        while True:
            left = self.jobs()
            if not left or time.monotonic() >= end:
                return left
            time.sleep(2)

    def cancel(self, jobs: list[str]) -> None:
        """End these jobs."""
        self._run("scancel", *(job.split()[0] for job in jobs))

    def resume(self) -> None:
        """Take our drain back, if it is ours still."""
        state, reason = self.look()
        if OUT.search(state) and reason.startswith(OURS):
            self._run("scontrol", "update", f"NodeName={self.name}", "State=RESUME")

    def _refuse_silence(self) -> None:
        """Where slurmd runs, somebody must know its jobs."""
        code, _, _ = self.module.run_command(["systemctl", "is-active", "--quiet", "slurmd"])
        if not code:
            self.module.fail_json(
                msg=f"slurmd runs on {self.name}, but Slurm's controller does not tell of it, so nobody knows whether"
                " jobs run here: mend the controller, or stop slurmd, then deploy again"
            )

    def _run(self, *words: str) -> tuple[int, str, str]:
        answer: tuple[int, str, str] = self.module.run_command(
            ["timeout", "20", *words], environ_update={"LC_ALL": "C"}
        )
        return answer


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no answer"
