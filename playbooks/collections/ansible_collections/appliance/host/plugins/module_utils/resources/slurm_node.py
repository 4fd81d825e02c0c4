"""Waits until the controller has this host, and takes back a drain that is ours."""

from __future__ import annotations

import re
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of

OWNED = "appliance: a host of "
OURS = re.compile(
    "appliance: (health: [a-z_]+[.][a-z_]+ .*|a host of [a-z]+|the driver is changed|GPUs are about to be divided"
    "|the host changes its owner|Kubernetes is upgraded)"
)
"""The reasons of its watch, of this module and of appliance.models.drain; a person's that begins alike is none of them."""
SLURMS = (
    "Not responding",
    "Node unexpectedly rebooted",
    "gres/gpu count",
    "Low RealMemory",
    "Low socket*core*thread count",
    "Low CPUs",
)
"""Beginnings of reasons slurmctld gives by itself when a host registers, or does not (22.05 to 24.11)."""

OUT = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "INVAL", "INVALID_REG"}
)
"""What appliance.stages.slurm.checks calls out of work."""
SHOWN = re.compile(r"\bState=(\S+)")
REASON = re.compile(r"\bReason=(.*?) \[([^@\]]*)@[^\]]*\]")


def parse(line: str) -> tuple[str, str, str]:
    """State, reason and who gave it, of one line of ``scontrol --oneliner show node``."""
    state = SHOWN.search(line)
    reason = REASON.search(line)
    return (
        state.group(1) if state else "",
        reason.group(1) if reason else "",
        reason.group(2) if reason else "",
    )


def flags(state: str) -> set[str]:
    """The words of a state such as ``DOWN*+DRAIN``; its suffix counts as NOT_RESPONDING."""
    words = set(re.sub(r"[^A-Z_+]", "", state.upper()).split("+"))
    return words | ({"NOT_RESPONDING"} if "*" in state else set())


def is_ours(reason: str, author: str, slurm_user: str) -> bool:
    """Whether this appliance may take the drain back; it works as root."""
    ours = author in {"root", slurm_user} and OURS.fullmatch(reason) is not None
    return ours or (author == slurm_user and reason.startswith(SLURMS))


class Node:
    """The door to scontrol, for one node."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.name: str = module.params["name"]

    def show(self) -> tuple[str, str, str, str]:
        """State, reason, author, and what scontrol said when there is no state."""
        code, out, err = self._run("--oneliner", "show", "node", self.name)
        said = lines_of((err or out).strip()) or ["no answer"]
        return ("", "", "", said[-1]) if code else (*parse(out), "")

    def registered(self, seconds: int) -> tuple[str, str, str]:
        """Its state once it answers. Fails with the reason when the time is over."""
        end = time.monotonic() + seconds
        while True:
            state, reason, author, said = self.show()
            if state and not flags(state) & {"NOT_RESPONDING", "UNKNOWN"}:
                return state, reason, author
            if time.monotonic() > end:
                self.module.fail_json(msg=self._silence(state, said), state=state, reason=reason)
            time.sleep(1)

    def resume(self) -> None:
        """Back to work. slurmctld refuses to resume a node that is at work by then, as one whose own drain it took back."""
        code, out, err = self._run("update", f"NodeName={self.name}", "State=RESUME")
        if code and flags(self.show()[0]) & (OUT | {""}):
            said = lines_of((err or out).strip()) or ["no reason given"]
            self.module.fail_json(msg=f"{self.name} cannot be resumed: {said[-1]}")

    def give_away(self, owner: str) -> None:
        """No new jobs: the host is somebody else's."""
        reason = f"Reason={OWNED}{owner}"
        code, out, err = self._run("update", f"NodeName={self.name}", "State=DRAIN", reason)
        if code:
            said = lines_of((err or out).strip()) or ["no reason given"]
            self.module.fail_json(msg=f"{self.name} cannot be drained: {said[-1]}")

    def _silence(self, state: str, said: str) -> str:
        controller = self.module.params["controller"]
        if not state:
            return f"{controller}, Slurm's controller, gives no answer about {self.name}: {said}"
        return f"slurmd of {self.name} has not registered with {controller} (state {state})"

    def _run(self, *words: str) -> tuple[int, str, str]:
        answer: tuple[int, str, str] = self.module.run_command(
            ["timeout", "20", "scontrol", *words], environ_update={"LC_ALL": "C"}
        )
        return answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {
            "name": {"required": True},
            "controller": {"required": True},
            "health": {"type": "list", "elements": "str", "required": True},
            "slurm_user": {"default": "slurm"},
            "owner": {"default": "slurm"},
            "wait": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    if module.check_mode and module.get_bin_path("scontrol") is None:
        module.exit_json(changed=False, state="", reason="")
    node = Node(module)
    if module.check_mode:
        state, reason, author, _ = node.show()
    else:
        state, reason, author = node.registered(module.params["wait"])
    owner = module.params["owner"]
    if owner != "slurm":
        given = reason == f"{OWNED}{owner}" and bool(flags(state) & OUT)
        if not given and not module.check_mode:
            node.give_away(owner)
            state, reason, _ = node.registered(module.params["wait"])
        module.exit_json(changed=not given, state=state, reason=reason)
    out = bool(flags(state) & OUT) and is_ours(reason, author, module.params["slurm_user"])
    back = out and module.run_command(module.params["health"])[0] == 0
    if back and not module.check_mode:
        node.resume()
        # A resumed node counts as not responding until slurmctld has asked it.
        state, reason, _ = node.registered(module.params["wait"])
    module.exit_json(changed=back, state=state, reason=reason)
