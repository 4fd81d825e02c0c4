"""Brings the NVIDIA driver of this host to a release: installed, loaded, answering; or back to the one before."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.apt import available
from ansible_collections.appliance.host.plugins.module_utils.gpu_kernel import Kernel
from ansible_collections.appliance.host.plugins.module_utils.gpu_packages import (
    PREFERENCES,
    AptDriver,
    DnfDriver,
    choose,
    of_release,
    upstream,
)
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

NOTE = "/var/lib/appliance/gpu-driver.json"
"""What a change in progress must remember: the packages before, the GPUs that answered, the services that ran."""

ANSWER_SECONDS = 60


class Change:
    """The driver of this host, as it is and as it shall be."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.packages: Any = AptDriver(module) if available() else DnfDriver(module)
        self.kernel = Kernel(module)
        self.entries = [entry.split("|") for entry in module.params["packages"]]
        self.changed = False
        self.reboot = False
        self.note: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        """Bring the driver to its release. Raises Problem."""
        self.packages.read()
        versions, said = self.kernel.answers()
        before = versions[0] if versions else ""
        self.note = _recall()
        installed = self._installed()
        wanted = installed if self._settled(installed) else self._wanted()
        target = upstream(next(iter(wanted.values())))
        fits = wanted == installed and (before == target or not _booted())
        if fits and self.packages.held(wanted) and not self.note:
            return self._result(wanted, before)
        self.changed = True
        if self.module.check_mode:
            return self._result(wanted, before)
        if fits:
            self.packages.hold(wanted)
            self._finish()
            return self._result(wanted, before)
        self._change(installed, wanted, versions, said)
        return self._result(wanted, before)

    def _installed(self) -> dict[str, str]:
        """What of each entry is installed, whole or not."""
        found = {}
        for entry in self.entries:
            for name in entry:
                if self.packages.version(name):
                    found[name] = self.packages.version(name)
                    break
        return found

    def _settled(self, installed: dict[str, str]) -> bool:
        """Whether every entry is installed, in one version of the release (or the pinned one)."""
        versions = {upstream(version) for version in installed.values()}
        return (
            len(installed) == len(self.entries)
            and len(versions) == 1
            and all(of_release(version, self._release()) for version in installed.values())
            and all(pin == installed.get(name, pin) for name, pin in self._pins().items())
        )

    def _pins(self) -> dict[str, str]:
        names = {name for entry in self.entries for name in entry}
        return {name: str(v) for name, v in self.module.params["pins"].items() if name in names}

    def _release(self) -> str:
        pinned = list(self._pins().values())
        return upstream(pinned[0]) if pinned else str(self.module.params["release"])

    def _wanted(self) -> dict[str, str]:
        names = [name for entry in self.entries for name in entry]
        if not self.module.check_mode:
            self.packages.refresh(self.module.params["source"])
        offered = self.packages.offered(names)
        found = choose(self.entries, offered, self._release(), self._pins())
        if found:
            return found
        there = sorted({upstream(v) for versions in offered.values() for v in versions})
        lacking = [e for e in self.entries if not any(offered.get(name) for name in e)]
        what = " and ".join(" or ".join(entry) for entry in lacking or self.entries)
        raise Problem(
            f"no repository of this host offers {what} of driver {self._release()}"
            f" (there is {', '.join(there) or 'none'}): choose software.driver_branch among them, or another mirror"
        )

    def _change(
        self, installed: dict[str, str], wanted: dict[str, str], versions: list[str], said: str
    ) -> None:
        container = self.module.params["container"]
        refusal = "" if container else self.kernel.refusal()
        if refusal:
            raise Problem(refusal)
        booted = _booted()
        # One that does not answer may be loaded all the same, and in use.
        silent = "mismatch" in said.lower() or (not container and self.kernel.is_loaded())
        if not self.note:
            self.note = {"before": installed, "answered": len(versions), "stopped": []}
        if booted and (versions or silent):
            self._clear()
        try:
            if wanted != installed:
                self.packages.move(wanted)
            if booted:
                self._load(wanted)
        except Problem as problem:
            self._roll_back(problem, wanted)
        if not self.reboot:
            self._finish()

    def _clear(self) -> None:
        """Nobody uses the driver, and it is unloaded. What stands in the way leaves everything as it was."""
        _remember(self.note)
        self._stop_clients()
        holders = self.kernel.holders()
        if holders:
            self._finish()
            raise Problem(
                f"processes use the GPUs: {', '.join(holders)}: end them, then deploy again"
            )
        if self.kernel.unload():
            self.reboot = True

    def _load(self, wanted: dict[str, str]) -> None:
        if not self.module.params["container"] and not self.kernel.evict_nouveau():
            self.reboot = True
        if self.reboot:
            return
        failed = self.kernel.load()
        if failed:
            raise Problem(failed)
        self._prove(upstream(next(iter(wanted.values()))))
        self._start_clients()

    def _prove(self, target: str) -> None:
        """The driver answers in its version, for as many GPUs as before."""
        end = time.monotonic() + ANSWER_SECONDS
        while True:
            versions, said = self.kernel.answers()
            if set(versions) == {target} and len(versions) >= self.note.get("answered", 0):
                return
            # A wrong answer stays wrong; only silence may end.
            if versions or time.monotonic() > end:
                break
            time.sleep(1)
        if versions and set(versions) != {target}:
            raise Problem(f"driver {versions[0]} answers, not {target}")
        if versions:
            raise Problem(f"{len(versions)} GPUs answer, {self.note['answered']} did before")
        raise Problem(said or "the driver does not answer")

    def _roll_back(self, problem: Problem, wanted: dict[str, str]) -> None:
        target = upstream(next(iter(wanted.values())))
        before = self.note.get("before", {})
        old = upstream(next(iter(before.values()))) if before else ""
        failed = f"driver {target} does not come up ({problem})"
        if not old or old == target or len(before) != len(self.entries):
            self._finish()
            raise Problem(f"{failed}: dmesg | grep NVRM may say why")
        try:
            self.kernel.unload()
            self.packages.move(before)
            why = self.kernel.load()
            if why:
                raise Problem(why)
            self._prove(old)
            self._start_clients()
        except Problem as second:
            raise Problem(f"{failed}, and driver {old} does not come back ({second})") from None
        self._finish()
        raise Problem(f"{failed}; rolled back to {old}, which works: choose another release")

    def _stop_clients(self) -> None:
        for unit in reversed(self.module.params["clients"]):
            code, _, _ = self.module.run_command(["systemctl", "is-active", unit])
            if not code and unit not in self.note["stopped"]:
                self.note["stopped"].append(unit)
                _remember(self.note)
            self.module.run_command(["systemctl", "stop", unit])

    def _start_clients(self) -> None:
        """Those that ran before; the role starts all of them afterwards."""
        for unit in reversed(self.note.get("stopped", [])):
            code, out, err = self.module.run_command(["systemctl", "restart", unit])
            if code:
                raise Problem(f"{unit} does not start: {' '.join((err or out).split())}")

    def _finish(self) -> None:
        """The services that ran run again, and nothing is left to remember."""
        for unit in reversed(self.note.get("stopped", [])):
            self.module.run_command(["systemctl", "start", unit])
        self.note = {}
        if os.path.exists(NOTE):
            os.unlink(NOTE)

    def _result(self, wanted: dict[str, str], before: str) -> dict[str, Any]:
        resources = [{"kind": "package", "name": name} for name in sorted(wanted)]
        if available():
            resources.append({"kind": "file", "name": PREFERENCES})
        return {
            "changed": self.changed,
            "version": upstream(next(iter(wanted.values()))),
            "before": before,
            "reboot": self.reboot,
            "resources": resources,
        }


def _booted() -> bool:
    """Whether systemd runs this host; in an image that is being made nothing is loaded."""
    return os.path.isdir("/run/systemd/system")


def _recall() -> dict[str, Any]:
    try:
        with open(NOTE) as file:
            found: dict[str, Any] = json.load(file)
            return found
    except (OSError, ValueError):
        return {}


def _remember(note: dict[str, Any]) -> None:
    os.makedirs(os.path.dirname(NOTE), mode=0o755, exist_ok=True)
    with open(f"{NOTE}.new", "w") as file:
        json.dump(note, file)
    os.replace(f"{NOTE}.new", NOTE)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {
            "packages": {"type": "list", "elements": "str", "required": True},
            "release": {"required": True},
            "pins": {"type": "dict", "default": {}},
            "source": {"default": ""},
            "clients": {"type": "list", "elements": "str", "default": []},
            "container": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        result = Change(module).run()
    except Problem as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(**result)
