"""Brings systemd units to the wanted state, in the order given."""

from __future__ import annotations

import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem
from ansible_collections.appliance.host.plugins.module_utils.systemd import (
    State,
    Systemctl,
    booted,
    full_name,
    outdated,
    started_at,
)

SPEC = {
    "units": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"required": True},
            "enabled": {"type": "bool"},
            "state": {
                "default": "started",
                "choices": ["started", "stopped", "restarted", "reloaded", "kept"],
            },
            "masked": {"type": "bool", "default": False},
            "watches": {"type": "list", "elements": "str", "default": []},
        },
    }
}
GRACE_SECONDS = 0.3


def verbs(item: dict[str, Any], state: State, live: bool) -> list[str]:
    """What systemctl must do to the unit, in order."""
    if item["state"] == "kept":
        stale = live and state.running and _outdated(item["watches"], state)
        return ["restart"] if stale else []
    enabled = item["state"] != "stopped" if item["enabled"] is None else item["enabled"]
    if item["masked"]:
        stop = ["stop"] if live and not state.stopped else []
        return stop + ([] if state.file.startswith("masked") else ["mask"])
    done = ["unmask"] if state.file.startswith("masked") else []
    if enabled and (done or not state.enabled):
        done.append("enable")
    if not enabled and state.file in {"enabled", "enabled-runtime"}:
        done.append("disable")
    return done + ([_action(item, state)] if live and _action(item, state) else [])


def _action(item: dict[str, Any], state: State) -> str:
    if item["state"] == "stopped":
        return "" if state.stopped else "stop"
    if not state.running:
        return "start"
    if item["state"] == "restarted" or _outdated(item["watches"], state):
        return "restart"
    return "reload-or-restart" if item["state"] == "reloaded" else ""


def _outdated(watches: list[str], state: State) -> bool:
    now, start = time.time(), started_at(state)
    # A file of the future is a clock that was set back; it would restart the unit on every run.
    times = [os.stat(path).st_mtime for path in watches if os.path.exists(path)]
    return bool(start) and any(start < at <= now for at in times)


class Manager:
    """Applies the wanted states one by one."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.systemctl = Systemctl(module)
        self.done: dict[str, list[str]] = {}
        self.resources: list[dict[str, str]] = []

    def apply(self, items: list[dict[str, Any]]) -> None:
        """Bring every unit to its state, then look whether it stayed there."""
        names = [full_name(item["name"]) for item in items]
        if not booted():
            return self._offline(items, names)
        states = self.systemctl.show(names)
        stale = any(outdated(name, state) for name, state in zip(names, states))
        if stale and not self.module.check_mode:
            self.systemctl.reload()
            states = self.systemctl.show(names)
        began = time.time()
        for item, name, state in zip(items, names, states):
            self._treat(item, name, state)
        self._confirm(items, names, began)
        return None

    def _treat(self, item: dict[str, Any], name: str, state: State) -> None:
        kept = item["state"] == "kept"
        unwanted = item["masked"] or (item["state"] == "stopped" and not item["enabled"])
        if not state.known and (unwanted or kept):
            return
        if not state.known and not self.module.check_mode:
            raise Problem(f"{name}: there is no such unit on this host")
        if not kept:
            self.resources.append({"kind": "unit", "name": name})
        for verb in verbs(item, state, live=True):
            self.done.setdefault(name, []).append(verb)
            if not self.module.check_mode:
                self.systemctl.do(verb, name)

    def _confirm(self, items: list[dict[str, Any]], names: list[str], began: float) -> None:
        wanted = {full_name(item["name"]) for item in items if item["state"] != "stopped"}
        touched = [name for name in names if name in wanted and _starts(self.done.get(name, []))]
        if not touched or self.module.check_mode:
            return
        if any(state.type in {"simple", "exec"} for state in self.systemctl.show(touched)):
            time.sleep(GRACE_SECONDS)
        for name, state in zip(touched, self.systemctl.show(touched)):
            if not state.condition:
                raise Problem(
                    f"{name}: not started, a condition of the unit is not met on this host"
                )
            if not state.running and not (state.type == "oneshot" and state.result == "success"):
                raise Problem(self.systemctl.complaint("start", name, began, state.active))

    def _offline(self, items: list[dict[str, Any]], names: list[str]) -> None:
        for item, name in zip(items, names):
            if item["state"] == "kept":
                continue
            _, out, _ = self.systemctl.run("is-enabled", name)
            state = State("loaded", "", "", out.strip(), False, "", "", True, 0.0, "")
            self.resources.append({"kind": "unit", "name": name})
            for verb in verbs(item, state, live=False):
                self.done.setdefault(name, []).append(verb)
                if not self.module.check_mode:
                    self.systemctl.do(verb, name)


def _starts(done: list[str]) -> bool:
    return any(verb in {"start", "restart", "reload-or-restart"} for verb in done)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    manager = Manager(module)
    try:
        manager.apply(module.params["units"])
    except Problem as problem:
        module.fail_json(msg=str(problem), units=manager.done)
    module.exit_json(changed=bool(manager.done), units=manager.done, resources=manager.resources)
