"""Turns swap off and keeps it off."""

from __future__ import annotations

import os
import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.disk import Staged, Wanted, about, read
from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem, last_line

FSTAB = "/etc/fstab"
UNITS = "/etc/systemd/system"
IN_USE = "/proc/swaps"
TARGET = "swap.target"
MAKERS = (
    "zramswap.service",
    "zram-config.service",
    "dphys-swapfile.service",
    "systemd-swap.service",
)
"""Of zram-tools, Ubuntu's zram-config, dphys-swapfile and systemd-swap: each calls swapon by itself."""
MARK = "# swap, off for Kubernetes (appliance): "
LINE = re.compile(r"^(?!\s*#)\s*\S+\s+\S+\s+swap\b")


def in_use() -> list[str]:
    """What is swapped to now."""
    with about(IN_USE), open(IN_USE, "rb") as file:
        lines = lines_of(os.fsdecode(file.read()))[1:]
    return [line.split()[0] for line in lines if line.split()]


def without(fstab: str) -> str:
    """The table with its lines of swap as comments."""
    lines = [line for line in re.split(r"(?<=\n)", fstab) if line]
    return "".join(MARK + line if LINE.match(line) else line for line in lines)


def masked(unit: str) -> bool:
    """Whether a unit can be started by nobody."""
    path = os.path.join(UNITS, unit)
    return os.path.islink(path) and os.readlink(path) == "/dev/null"


class Host:
    """This host, on its way to no swap."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.changed = False

    def settle(self) -> list[str]:
        """Now, and after each boot; what was swapped to. Raises Problem."""
        was = in_use()
        self.keep_off_by_table()
        units = [TARGET, *self.there("list-unit-files", *MAKERS)]
        units += [
            u for u in self.there("list-units", "--all", "--type=swap") if u.endswith(".swap")
        ]
        for unit in [u for u in units if not masked(u)]:
            self.run(["systemctl", "mask", *(["--now"] if unit in MAKERS else []), unit])
        if was:
            self.run(["swapoff", "--all"])
        left = [] if self.module.check_mode else in_use()
        if left:
            raise Problem(
                f"swap is still on: {', '.join(left)}: swapoff {left[0]} on the host says why"
            )
        return was

    def keep_off_by_table(self) -> None:
        """The table of file systems, whose attributes stay."""
        found = (read(FSTAB) or b"").decode("utf-8", "surrogateescape")
        if without(found) == found:
            return
        self.changed = True
        if not self.module.check_mode:
            data = without(found).encode("utf-8", "surrogateescape")
            Staged(self.module, Wanted(FSTAB, data)).commit()

    def there(self, verb: str, *words: str) -> list[str]:
        """Units systemd knows."""
        argv = ["systemctl", verb, "--no-legend", "--plain", "--full", *words]
        _, out, _ = self.module.run_command(argv)
        return [line.split()[0] for line in lines_of(out) if line.split()]

    def run(self, argv: list[str]) -> None:
        """A change. Raises Problem."""
        self.changed = True
        if self.module.check_mode:
            return
        code, out, err = self.module.run_command(argv, environ_update={"LC_ALL": "C"})
        if code:
            raise Problem(f"{' '.join(argv)}: {last_line(err or out) or 'no reason given'}")


def main() -> None:
    """Run the module."""
    module = AnsibleModule({}, supports_check_mode=True)
    host = Host(module)
    try:
        was = host.settle()
    except Problem as problem:
        module.fail_json(msg=str(problem))
    resources = [{"kind": "link", "name": os.path.join(UNITS, TARGET)}]
    module.exit_json(changed=host.changed, was=was, resources=resources)
