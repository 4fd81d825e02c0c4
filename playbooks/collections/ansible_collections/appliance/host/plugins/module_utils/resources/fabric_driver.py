"""Brings the network adapters' driver of this host: the kernel's own, or NVIDIA's DOCA-OFED in a release."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.apt import Apt, available
from ansible_collections.appliance.host.plugins.module_utils.dnf import Dnf
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

PACKAGE = "doca-ofed"
UNINSTALL = "/usr/sbin/ofed_uninstall.sh"
"""NVIDIA's own way back (DOCA-Host Installation and Upgrade, DOCA 3.2.1)."""
MARK = "/etc/appliance/simulated.json"
OFED = re.compile(r"\d+\.\d+-[\d.]*\d")


class Change:
    """The driver of this host, as it is and as it shall be."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.packages: Any = Apt(module) if available() else Dnf(module)
        self.changed = False

    def run(self) -> dict[str, Any]:
        """Bring the driver. Raises Problem."""
        self.packages.read()
        doca = self.module.params["driver"] == "doca"
        installed = self.packages.version(PACKAGE)
        ours = os.path.exists(self.module.params["source"])
        fits = (
            of_release(installed, self.module.params["release"])
            if doca
            else not (installed and ours)
        )
        if not fits:
            self.changed = True
            if self.module.check_mode:
                return self._result(doca, True)
            self._consented()
            self._install() if doca else self._remove()
        if doca:
            self._hold()
        reboot = self._lacks_reboot(doca, ours)
        if reboot and fits and not self.module.check_mode:
            self._consented()
        return self._result(doca, reboot)

    def _consented(self) -> None:
        if not self.module.params["may_reboot"]:
            raise Problem(
                "the adapters' driver needs a reboot of the host, and the plan did not include one: deploy again"
            )

    def _install(self) -> None:
        release = self.module.params["release"]
        self.packages.refresh()
        offered = self._offered()
        found = [version for version in offered if of_release(version, release)]
        if not found:
            there = ", ".join(offered) or "none"
            raise Problem(
                f"no repository of this host offers {PACKAGE} {release} (there is {there}): "
                "choose software.doca_ofed among them, or another mirror"
            )
        name = f"{PACKAGE}={found[0]}" if available() else f"{PACKAGE}-{found[0]}"
        self.packages.apply([name], [])

    def _remove(self) -> None:
        if os.path.exists(UNINSTALL):
            code, out, err = self.module.run_command([UNINSTALL, "--force"])
            if code:
                raise Problem(f"{UNINSTALL}: {' '.join((err or out).split())[-200:]}")
            self.packages.read()
        if self.packages.version(PACKAGE):
            self.packages.apply([], [PACKAGE])

    def _offered(self) -> list[str]:
        """Versions, the newest first."""
        found: list[str] = self.packages.offered([PACKAGE]).get(PACKAGE, [])
        return found

    def _hold(self) -> None:
        """Against unattended upgrades; dnf has no such mark, there the repository should be of one release."""
        if not available() or self.module.check_mode:
            return
        found = self.packages.installed.get(PACKAGE)
        if found and found.desired != "h":
            self.changed = True
            self.packages.hold([PACKAGE])

    def _lacks_reboot(self, doca: bool, ours: bool) -> bool:
        loaded = text(f"{sysfs()}/module/mlx5_core/version")
        if not doca:
            return bool(loaded) and ours
        code, out, _ = self.module.run_command(["ofed_info", "-s"])
        installed = OFED.search(out) if not code else None
        return not loaded or bool(installed and installed.group() != loaded)

    def _result(self, doca: bool, reboot: bool) -> dict[str, Any]:
        resources = [{"kind": "package", "name": PACKAGE}] if doca else []
        changed = self.changed or reboot
        return {"changed": changed, "reboot": reboot, "resources": resources}


def of_release(version: str, release: str) -> bool:
    """Whether "3.1.0-091000" is of "3.1"."""
    parts, wanted = re.split(r"[.-]", version.rpartition(":")[2]), release.split(".")
    return bool(version) and parts[: len(wanted)] == wanted


def sysfs() -> str:
    """Where the kernel tells of its modules; a simulated host has a tree of its own."""
    try:
        with open(MARK) as file:
            return str(json.load(file).get("sysfs") or "/sys")
    except (OSError, ValueError):
        return "/sys"


def text(path: str) -> str:
    """What a file says, "" where there is none."""
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {
            "driver": {"required": True, "choices": ["inbox", "doca"]},
            "release": {"default": ""},
            "source": {"type": "path", "required": True},
            "may_reboot": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    try:
        result = Change(module).run()
    except Problem as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(**result)
