"""The adapter for Ansible: runs one playbook on hosts, passes events on, and returns one value per host."""

import json
import os
import re
import secrets
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from appliance.adapters import leftovers, ssh_config
from appliance.adapters.forks import forks
from appliance.adapters.remote import known_hosts_name
from appliance.errors import AnsibleFailed, ConfigError

Json = dict[str, object]

THROUGH = "Through"
"""Name of the task that marks a host as finished with the playbook; it is not one of the host's tasks."""
DEAD_WORKER = "A worker was found in a dead state"
"""The message of ansible-core's strategies when a worker process died (plugins/strategy/__init__.py)."""
KILLED = "run the same command again; check for out-of-memory kills on this machine: dmesg | grep -i 'killed process'"
CONNECTION = "ansible_"
"""Prefix of the variables for the connection to a host; those of group all also apply to this machine and to added hosts."""
LAST_PLAY = "appliance_last_play"
"""Variable of a host: the number of the last play it takes part in."""

SETTINGS = "[defaults]\ninternal_poll_interval = 0.01\n"
"""What no environment variable sets. By default, Ansible polls for results a thousand times a second, which costs a tenth of a processor."""

MARKS = "__ansible_"
"""Prefix of the keys by which Ansible's JSON marks a text as unsafe or encrypted."""
UNSAFE = f"{MARKS}unsafe"
VAULT_PASSWORD = "ANSIBLE_VAULT_PASSWORD_FILE"
KEPT = frozenset({VAULT_PASSWORD, "ANSIBLE_LOCAL_TEMP"})
TICKET = "JOB_ID"
"""A number in the environment of ansible-playbook that ansible-runner's callback writes into each event."""
LONGEST = 400
"""Characters of a reason."""


@dataclass(frozen=True)
class Play:
    """A playbook and its hosts. ``hosts`` maps host names to their variables, including the connection.

    ``plays``: the plays to run. ``mark`` identifies its processes, see leftovers.mark. ``private_key`` None means the agent
    or the user's own keys. All paths are absolute.
    ``connections``: a private folder for ssh connections shared with other plays; None for separate connections.
    ``delegates``: names in known_hosts of hosts that have no part in the play, but get delegated tasks.
    ``redact`` removes secrets from a host's output before it is shortened: half of a secret would not be recognized.
    """

    playbook: Path
    plays: tuple[Json, ...]
    roles: Path
    hosts: Mapping[str, Mapping[str, object]]
    groups: Mapping[str, tuple[str, ...]]
    known_hosts: Path
    private_key: Path | None
    mark: str
    connections: Path | None = None
    delegates: tuple[str, ...] = ()
    redact: Callable[[str], str] = str


@dataclass(frozen=True)
class TaskEvent:
    """One task on one host: ``state`` is "started", "ok", "changed", "failed" or "unreachable"."""

    host: str
    task: str
    state: str
    message: str = ""


@dataclass
class HostPlay:
    """The result of a playbook on one host. ``resources``: the (kind, name) pairs that its modules reported, each with the
    requested fields of its state, if the module reported them.

    ``remedy`` is set if ansible-playbook itself did not finish: the host is not at fault.
    """

    host: str
    tasks: int = 0
    changes: int = 0
    failed_task: str = ""
    message: str = ""
    remedy: str = ""
    unreachable: bool = False
    finished: bool = False
    resources: dict[tuple[str, str], Json] = field(default_factory=dict)

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
    """Runs the playbook. Variables may contain secrets: until the end they are kept in a private folder in memory.

    ``on_through`` is called for each host as soon as it has finished; neither it nor ``on_event`` may block.
    Raises AnsibleFailed when ansible-playbook itself could not run (a syntax error, a missing role) or was killed.
    """
    import ansible_runner  # noqa: TID251 - this module is the door

    outcome = {name: HostPlay(name) for name in request.hosts}
    stray: list[str] = []
    folder = leftovers.private_folder(request.mark)
    ticket = secrets.randbits(63)
    _forget_settings()
    try:
        environment = {**stage_in(folder, request), TICKET: str(ticket)}
        runner = ansible_runner.run(
            private_data_dir=str(folder),
            playbook=str(_write_playbook(folder, request)),
            inventory=str(folder / "inventory"),
            envvars=environment,
            quiet=True,
            event_handler=lambda event: _follow(
                _genuine(event, ticket), outcome, on_event, on_through, stray, request.redact
            ),
            cancel_callback=cancelled,
            suppress_env_files=True,
            settings={"pexpect_timeout": 0.2, "suppress_ansible_output": True},
        )
    finally:
        leftovers.discard(folder)
    if runner.status == "canceled":
        return outcome
    for host in outcome.values():
        host.finished = not host.unreachable and not host.failed_task and host.tasks > 0
    if by := _killed_by(runner.rc, stray):
        raise AnsibleFailed(f"ansible-playbook {request.playbook.name} was ended {by}", KILLED)
    if runner.rc not in (0, 2, 4) or not any(h.tasks or h.unreachable for h in outcome.values()):
        said = next(
            (line for line in reversed(stray) if "ERROR" in line), stray[-1] if stray else ""
        )
        raise AnsibleFailed(
            f"ansible-playbook {request.playbook.name} could not run ({runner.rc}): {said}",
            "this is a defect of the playbook, not of the hosts: please report it with this line",
        )
    return outcome


def _killed_by(code: int | None, stray: Sequence[str]) -> str:
    """What ended ansible-playbook, or one of its workers, from outside; "" if nothing did.

    ansible-runner has no code for a program that a signal ended; a shell between them adds 128 to the signal's number.
    """
    if code in (0, 2, 4):
        return ""
    if any(DEAD_WORKER in line for line in stray):
        return "because one of its processes was killed"
    if code is None:
        return "by a signal from outside"
    number = -code if code < 0 else code - 128
    return f"by {signal.Signals(number).name} from outside" if number in set(signal.Signals) else ""


def stage_in(folder: Path, request: Play) -> dict[str, str]:
    """Writes a play's inventory into ``folder``; returns the environment that its ansible-playbook needs."""
    _write_inventory(folder, request)
    (folder / "ansible.cfg").write_text(SETTINGS, encoding="ascii")
    return _environment(folder, request)


def _write_playbook(folder: Path, request: Play) -> Path:
    target = folder / request.playbook.name
    target.write_text(json.dumps(request.plays), encoding="utf-8")
    return target


def _write_inventory(folder: Path, request: Play) -> None:
    groups: Json = {
        name: {"hosts": {host: {} for host in hosts}} for name, hosts in request.groups.items()
    }
    common = _common(list(request.hosts.values()))
    hosts = {
        name: untemplated({key: value for key, value in variables.items() if key not in common})
        for name, variables in request.hosts.items()
    }
    tree = {"all": {"vars": untemplated(common), "hosts": hosts, "children": groups}}
    target = folder / "inventory" / "hosts.json"
    target.parent.mkdir(mode=0o700)
    target.touch(mode=0o600)
    target.write_text(json.dumps(tree), encoding="utf-8")


def _common(hosts: Sequence[Mapping[str, object]]) -> Json:
    """The variables that are equal on all of these hosts, except those of the connection."""
    first, *others = hosts or [{}]
    return {
        key: value
        for key, value in first.items()
        if not key.startswith(CONNECTION) and _is_everywhere(key, value, others)
    }


def _is_everywhere(key: str, value: object, hosts: Sequence[Mapping[str, object]]) -> bool:
    """Compared as JSON text: in Python, 1 and True are equal."""
    text = json.dumps(untemplated(value))
    return all(
        key in variables
        and (variables[key] is value or json.dumps(untemplated(variables[key])) == text)
        for variables in hosts
    )


def untemplated(value: object) -> object:
    """``value`` with every text marked as unsafe: otherwise Ansible evaluates texts of an inventory as templates.

    Keys of mappings are never evaluated. Raises ConfigError for a key that Ansible reads as one of its markers.
    """
    match value:
        case Mapping():
            if marks := [key for key in value if str(key).startswith(MARKS)]:
                raise ConfigError(f"{marks[0]!r} is reserved by Ansible", "use another name")
            return {str(key): untemplated(item) for key, item in value.items()}
        case list() | tuple():
            return [untemplated(item) for item in value]
        case bool() | int() | float() | None:
            return value
        case _:
            return {UNSAFE: str(value)}


def _environment(folder: Path, request: Play) -> dict[str, str]:
    for name, target in (
        ("roles", request.roles),
        ("collections", request.playbook.parent / "collections"),
    ):
        # Ansible splits these paths at colons and expands variables in them.
        (folder / name).symlink_to(target)
    return {
        leftovers.VARIABLE: request.mark,
        # The ansible-playbook of this installation, for any caller and current folder.
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        # Neither plugins nor collections from ~/.ansible, which is in the default of all their paths.
        "ANSIBLE_HOME": str(folder / "home"),
        # Ansible executes it if it is executable. No playbook contains anything encrypted.
        VAULT_PASSWORD: str(folder / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": str(folder / "roles"),
        "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str((request.connections or folder) / "cp"),
        "ANSIBLE_SSH_ARGS": ssh_config.arguments(
            folder, request.known_hosts, _names(request), request.private_key
        ),
        "ANSIBLE_HOST_KEY_CHECKING": "true",
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_CALLBACKS_ENABLED": "appliance.host.payloads",
        "ANSIBLE_FORKS": str(forks(len(request.hosts))),
        "ANSIBLE_GATHERING": "explicit",
        # A host's facts stay in ansible_facts, separate from our variables.
        "ANSIBLE_INJECT_FACT_VARS": "false",
        "ANSIBLE_INVENTORY_ENABLED": "yaml",
        "ANSIBLE_RETRY_FILES_ENABLED": "false",
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_DEPRECATION_WARNINGS": "false",
    }


def _names(request: Play) -> list[str]:
    """The names in known_hosts of all hosts that the play connects to."""
    own = [
        known_hosts_name(str(variables["ansible_host"]), int(str(variables["ansible_port"])))
        for variables in request.hosts.values()
        if "ansible_host" in variables and "ansible_port" in variables
    ]
    return [*own, *request.delegates]


def _forget_settings() -> None:
    """Removes the caller's Ansible settings from the environment: plugins, modules and strategies are code.

    Also the file of the vault's password, which this program itself uses for secrets of the site.
    """
    for name in [n for n in os.environ if n.startswith("ANSIBLE_") and n not in KEPT]:
        os.environ.pop(name, None)


def _genuine(event: Json, ticket: int) -> Json:
    """The event; without the ticket it is only a line of output, whatever it claims.

    Events are part of ansible-playbook's output, which also contains warnings of a host's module verbatim: a host that
    knows the format could forge events of others.
    """
    if event.get("job_id") == ticket:
        return event
    return {"event": "verbose", "stdout": event.get("stdout", "")}


def _parts(host: HostPlay, task: str, result: Json, on_event: Callable[[TaskEvent], None]) -> None:
    """Reports the result of a task: each entry of appliance.host.apply by its name; failed ones are reported elsewhere."""
    done = result.get("done")
    parts = done if isinstance(done, dict) else {task: result} if task else {}
    for name, said in parts.items():
        if not isinstance(said, dict) or said.get("failed"):
            continue
        changed = bool(said.get("changed"))
        host.changes += changed
        told = str(said.get("tells") or "")
        on_event(TaskEvent(host.host, str(name), "changed" if changed else "ok", told))


def _follow(
    event: Json,
    outcome: dict[str, HostPlay],
    on_event: Callable[[TaskEvent], None],
    on_through: Callable[[HostPlay], None],
    stray: list[str],
    redact: Callable[[str], str] = str,
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
            _collect(host, result)
            _parts(host, task, result, on_event)
        case "runner_on_failed" if not detail.get("ignore_errors"):
            host.tasks += 1
            _parts(host, "", result, on_event)
            host.failed_task = str(result.get("entry") or task)
            host.message = _reason(result, redact)
            on_event(TaskEvent(host.host, host.failed_task, "failed", host.message))
        case "runner_on_unreachable":
            host.unreachable, host.failed_task, host.message = True, task, _reason(result, redact)
            on_event(TaskEvent(host.host, task, "unreachable", host.message))
    return False


def _collect(host: HostPlay, result: Json) -> None:
    items = result.get("resources")
    if isinstance(items, list):
        for item in items:
            if isinstance(item, dict) and {"kind", "name"} <= item.keys():
                wanted = item.get("wanted")
                key = str(item["kind"]), str(item["name"])
                host.resources[key] = wanted if isinstance(wanted, dict) else {}


def _reason(result: Json, redact: Callable[[str], str] = str) -> str:
    """The most informative line: the first of the module's message, else the last of a program's output."""
    message = str(result.get("msg") or "").strip()
    if message and message != "non-zero return code" and not message.startswith("MODULE FAILURE"):
        return redact(_lines(message)[0])[:LONGEST]
    for key in ("stderr", "module_stderr", "stdout", "module_stdout"):
        if lines := _lines(str(result.get(key) or "")):
            return redact(lines[-1])[:LONGEST]
    return message or "no reason given"


def _lines(text: str) -> list[str]:
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]
