"""Makes one file system of blank disks, and refuses disks that hold anything else."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem, telling_line

ARRAYS = "/dev/md"
LABELS = "/dev/disk/by-label"
SPEC = {
    "state": {"choices": ["judged", "present"], "default": "present"},
    "devices": {"type": "list", "elements": "str", "required": True},
    "label": {"required": True},
}


class Disks:
    """The devices as they are on this host."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.names: list[str] = module.params["devices"]
        self.label: str = module.params["label"]
        self.changed = False

    def judge(self) -> list[str]:
        """Which of them are blank: all, or none where all carry the label. Raises Problem."""
        paths = self._followed()
        devices = self._on_them(paths)
        signed = self._signatures(paths)
        blank = [one["path"] for one in devices if is_blank(one, signed)]
        ours = [one["path"] for one in devices if self._is_ours(one["kname"], signed)]
        foreign = [d["path"] for d in devices if d["path"] not in {*blank, *ours}]
        if foreign:
            raise Problem(
                f"{', '.join(foreign)} of storage.scratch.devices carries a file system, a partition table or an array that is "
                "not the appliance's scratch; nothing was touched. Take it out of the list, or clear it yourself with wipefs."
            )
        if blank and ours:
            raise Problem(
                f"{', '.join(blank)} is blank while {', '.join(ours)} already carries the appliance's scratch: a disk was replaced "
                "or added. Scratch is made once; to make it anew, umount it, mdadm --stop the array and wipefs its members yourself."
            )
        return blank

    def make(self, blank: list[str]) -> None:
        """Array and file system. An array without one was left by a run that was cut off between the two.

        Neither program overwrites anything: mdadm asks, and gets no answer, and mkfs.xfs refuses without -f.
        """
        several = len(self.names) > 1
        array = os.path.join(ARRAYS, self.label)
        if several and blank and not os.path.lexists(array):
            how = [f"--name={self.label}", "--level=0", f"--raid-devices={len(self.names)}"]
            self._change(["mdadm", "--create", array, *how, *self.names])
        if not os.path.lexists(os.path.join(LABELS, self.label)):
            self._change(["mkfs.xfs", "-L", self.label, array if several else self.names[0]])

    def _followed(self) -> list[str]:
        """The devices themselves, where links such as those of /dev/disk/by-id lead."""
        argv = ["readlink", "--canonicalize-existing", "--verbose", *self.names]
        code, out, err = self._run(argv)
        found = lines_of(out)
        if code or len(set(found)) != len(self.names):
            why = "; ".join(lines_of(err.strip())) or "two of them are the same device"
            raise Problem(
                f"storage.scratch.devices names {', '.join(self.names)}; {why}. lsblk lists what this host has."
            )
        return found

    def _on_them(self, paths: list[str]) -> list[dict[str, Any]]:
        """What stands on them (partitions, arrays, volumes) and where it is mounted."""
        # Without NAME it prints no tree: an array would stand next to its members, as a device of its own.
        told = self._look(["lsblk", "--json", "--output", "NAME,KNAME,PATH,MOUNTPOINT", *paths])
        devices: list[dict[str, Any]] = told["blockdevices"]
        return devices

    def _signatures(self, paths: list[str]) -> dict[str, list[str]]:
        """Labels by the kernel's name of the device, "" for a signature without one."""
        # lsblk knows only what udev has noted; wipefs without --all reads the devices themselves.
        told = self._look(["wipefs", "--json", "--output", "DEVICE,TYPE,LABEL", *paths])
        found: dict[str, list[str]] = {}
        for one in told.get("signatures", []):
            found.setdefault(one["device"], []).append(one.get("label") or "")
        return found

    def _is_ours(self, name: str, signed: dict[str, list[str]]) -> bool:
        # mdadm puts "host:" before the name of an array.
        mark = re.compile(f"(.+:)?{re.escape(self.label)}")
        return name in signed and all(mark.fullmatch(label) for label in signed[name])

    def _change(self, argv: list[str]) -> None:
        self.changed = True
        if not self.module.check_mode:
            self._good(argv)

    def _look(self, argv: list[str]) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._good(argv).strip() or "{}")
        return told

    def _good(self, argv: list[str]) -> str:
        code, out, err = self._run(argv)
        if code:
            why = telling_line(err or out) or f"exit status {code}"
            raise Problem(f"{' '.join(argv)}: {why}")
        return out

    def _run(self, argv: list[str]) -> tuple[int, str, str]:
        said: tuple[int, str, str] = self.module.run_command(argv, environ_update={"LC_ALL": "C"})
        return said


def is_blank(device: dict[str, Any], signed: dict[str, list[str]]) -> bool:
    """Whether nothing is on a device that lsblk has told of."""
    unused = device.get("mountpoint", "") is None and "children" not in device
    return unused and device["kname"] not in signed


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    disks = Disks(module)
    try:
        blank = disks.judge()
        if module.params["state"] == "present":
            disks.make(blank)
    except Problem as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(changed=disks.changed, blank=blank)
