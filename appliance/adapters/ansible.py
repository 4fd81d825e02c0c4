"""The one door to Ansible: one playbook over some hosts, told as events, ended as one value per host."""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import ansible_runner  # noqa: TID251 - this module is the door

from appliance.adapters import strays
from appliance.errors import AnsibleFailed

Json = dict[str, object]

THROUGH = "Through"
"""Name of the task that tells that a host is through with the playbook; it is not one of the host's tasks."""
LAST_PLAY = "appliance_last_play"
"""Variable of a host: the number of the last play it takes part in."""


@dataclass(frozen=True)
class Play:
    """A playbook and the hosts it is for. ``hosts`` maps host names to their variables, connection included.

    ``plays``: what is run of it. ``mark`` is what its processes are found by, see strays.mark.
    """

    playbook: Path
    plays: tuple[Json, ...]
    roles: Path
    hosts: Mapping[str, Mapping[str, object]]
    groups: Mapping[str, tuple[str, ...]]
    known_hosts: Path
    mark: str


@dataclass(frozen=True)
class TaskEvent:
    """One task on one host: ``state`` is "started", "ok", "changed", "failed" or "unreachable"."""

    host: str
    task: str
    state: str
    message: str = ""


@dataclass
class HostPlay:
    """How a playbook ended on one host. ``resources`` are the (kind, name) pairs its modules reported."""

    host: str
    tasks: int = 0
    changes: int = 0
    failed_task: str = ""
    message: str = ""
    unreachable: bool = False
    finished: bool = False
    resources: dict[tuple[str, str], None] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Every task ran, and none failed."""
        return self.finished and not self.failed_task


def play(
    request: Play,
    on_event: Callable[[TaskEvent], None],
    on_through: Callable[[HostPlay], None],
    cancelled: Callable[[], bool],
) -> dict[str, HostPlay]:
    """Runs the playbook. Variables may hold secrets: they live in a private folder of memory until the end.

    ``on_through`` is told of each host that came to the end, as soon as it did; neither it nor ``on_event`` may wait.
    Raises AnsibleFailed when ansible-playbook itself could not run (a syntax error, a missing role).
    """
    outcome = {name: HostPlay(name) for name in request.hosts}
    stray: list[str] = []
    folder = strays.private_folder(request.mark)
    try:
        environment = stage_in(folder, request)
        runner = ansible_runner.run(
            private_data_dir=str(folder),
            playbook=str(_write_playbook(folder, request)),
            inventory=str(folder / "inventory"),
            envvars=environment,
            quiet=True,
            event_handler=lambda event: _follow(event, outcome, on_event, on_through, stray),
            cancel_callback=cancelled,
            suppress_env_files=True,
            settings={"pexpect_timeout": 0.2, "suppress_ansible_output": True},
        )
    finally:
        strays.discard(folder)
    if runner.status == "canceled":
        return outcome
    for host in outcome.values():
        host.finished = not host.unreachable and not host.failed_task and host.tasks > 0
    if runner.rc not in (0, 2, 4) or not any(h.tasks or h.unreachable for h in outcome.values()):
        said = next(
            (line for line in reversed(stray) if "ERROR" in line), stray[-1] if stray else ""
        )
        raise AnsibleFailed(
            f"ansible-playbook {request.playbook.name} could not run ({runner.rc}): {said}",
            "this is a defect of the playbook, not of the hosts: please report it with this line",
        )
    return outcome


def stage_in(folder: Path, request: Play) -> dict[str, str]:
    """Writes a play's inventory into ``folder``; returns the environment its ansible-playbook needs."""
    _write_inventory(folder, request)
    (folder / "ansible.cfg").touch()
    return _environment(folder, request)


def _write_playbook(folder: Path, request: Play) -> Path:
    target = folder / request.playbook.name
    target.write_text(json.dumps(request.plays))
    return target


def _write_inventory(folder: Path, request: Play) -> None:
    groups: Json = {
        name: {"hosts": {host: {} for host in hosts}} for name, hosts in request.groups.items()
    }
    tree = {"all": {"hosts": request.hosts, "children": groups}}
    target = folder / "inventory" / "hosts.json"
    target.parent.mkdir(mode=0o700)
    target.touch(mode=0o600)
    target.write_text(json.dumps(tree, default=str))


def _environment(folder: Path, request: Play) -> dict[str, str]:
    ssh = [
        "-o ControlMaster=auto",
        "-o ControlPersist=30s",
        "-o StrictHostKeyChecking=yes",
        f"-o UserKnownHostsFile={request.known_hosts}",
        "-o GlobalKnownHostsFile=/dev/null",
        "-o PreferredAuthentications=publickey",
        "-o ConnectTimeout=10",
        "-o ServerAliveInterval=5",
        "-o ServerAliveCountMax=4",
    ]
    return {
        strays.VARIABLE: request.mark,
        # The ansible-playbook of this very installation, whoever calls it and from where.
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": str(request.roles),
        "ANSIBLE_COLLECTIONS_PATH": str(request.playbook.parent / "collections"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "cp"),
        "ANSIBLE_SSH_ARGS": " ".join(ssh),
        "ANSIBLE_HOST_KEY_CHECKING": "true",
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_FORKS": str(min(50, max(5, len(request.hosts)))),
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_INVENTORY_ENABLED": "yaml",
        "ANSIBLE_RETRY_FILES_ENABLED": "false",
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_DEPRECATION_WARNINGS": "false",
    }


def _follow(
    event: Json,
    outcome: dict[str, HostPlay],
    on_event: Callable[[TaskEvent], None],
    on_through: Callable[[HostPlay], None],
    stray: list[str],
) -> bool:
    kind = str(event.get("event", ""))
    data = event.get("event_data")
    detail: Json = data if isinstance(data, dict) else {}
    host = outcome.get(str(detail.get("host", "")))
    if kind in {"verbose", "error", "system_warning", "runner_on_error"}:
        stray.append(str(event.get("stdout", "")).strip())
    if host is None:
        return False
    task = str(detail.get("task", ""))
    raw = detail.get("res")
    result: Json = raw if isinstance(raw, dict) else {}
    if task == THROUGH and kind != "runner_on_unreachable":
        if kind == "runner_on_ok":
            host.finished = True
            on_through(host)
        return False
    match kind:
        case "runner_on_start":
            on_event(TaskEvent(host.host, task, "started"))
        case "runner_on_ok":
            host.tasks += 1
            changed = bool(result.get("changed"))
            host.changes += changed
            _collect(host, result)
            told = str(result.get("tells") or "")
            on_event(TaskEvent(host.host, task, "changed" if changed else "ok", told))
        case "runner_on_failed" if not detail.get("ignore_errors"):
            host.tasks += 1
            host.failed_task, host.message = task, _reason(result)
            on_event(TaskEvent(host.host, task, "failed", host.message))
        case "runner_on_unreachable":
            host.unreachable, host.failed_task, host.message = True, task, _reason(result)
            on_event(TaskEvent(host.host, task, "unreachable", host.message))
    return False


def _collect(host: HostPlay, result: Json) -> None:
    items = result.get("resources")
    if isinstance(items, list):
        for item in items:
            if isinstance(item, dict):
                host.resources[str(item["kind"]), str(item["name"])] = None


def _reason(result: Json) -> str:
    """The one line that says most: the first of the module's message, else the last a program wrote."""
    message = str(result.get("msg") or "")
    if message and message != "non-zero return code" and not message.startswith("MODULE FAILURE"):
        return _lines(message)[0][:400]
    for key in ("stderr", "module_stderr", "stdout", "module_stdout"):
        if lines := _lines(str(result.get(key) or "")):
            return lines[-1][:400]
    return message or "no reason given"


def _lines(text: str) -> list[str]:
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]
