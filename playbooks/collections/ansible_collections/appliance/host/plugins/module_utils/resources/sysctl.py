"""Writes kernel parameters to a file of sysctl.d and sets those that differ."""

from __future__ import annotations

import os
import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.disk import (
    Staged,
    Wanted,
    attributes_differ,
    make_parents,
    read,
)
from ansible_collections.appliance.host.plugins.module_utils.outcome import (
    Problem,
    in_container,
    os_reason,
)

SPEC = {"settings": {"type": "dict", "required": True}, "file": {"required": True}}
ROOT = "/proc/sys"
# Keys with a value of their own per network or IPC namespace; all others are the machine's
# (namespaces(7), and "Sysctl" in the kernel's Documentation/admin-guide/sysctl).
IPV6 = "net.ipv6."
OWN = re.compile(r"(net|fs\.mqueue)\.|kernel\.(shm|msg|sem)")


def place(key: str) -> str:
    """The file of a key; with "/" first, dots belong to names (net/ipv4/conf/eth0.5/...)."""
    separator = re.search(r"[./]", key)
    if separator and separator.group() == ".":
        key = key.translate(str.maketrans("./", "/."))
    return os.path.join(ROOT, key)


def normal(value: str) -> str:
    """A value without regard to the kind and amount of white space."""
    return " ".join(value.split())


def current(key: str) -> str | None:
    """The live value; None when it cannot be read."""
    try:
        with open(place(key)) as file:
            return normal(file.read())
    except OSError:
        return None


class Kernel:
    """Sets values; a container's refusals are kept, a machine's are errors."""

    def __init__(self, check: bool, container: bool) -> None:
        self.check = check
        self.container = container
        self.set: dict[str, tuple[str | None, str]] = {}
        self.refused: list[str] = []

    def want(self, key: str, value: str) -> None:
        """Make the live value equal ``value``."""
        found = current(key)
        if found == value:
            return
        if self.container and not (OWN.match(key) and os.access(place(key), os.W_OK)):
            self.refused.append(key)
            return
        if key.startswith(IPV6) and not os.path.exists(place(IPV6 + "conf")):
            self.refused.append(key)
            return
        if found is None and not os.path.exists(place(key)):
            raise Problem(f"sysctl {key}: this kernel has no such parameter")
        if not self.check and not self._write(key, value):
            return
        self.set[key] = (found, value)

    def _write(self, key: str, value: str) -> bool:
        try:
            with open(place(key), "w") as file:
                file.write(value + "\n")
        except OSError as error:
            if self.container:
                self.refused.append(key)
                return False
            raise Problem(f"sysctl {key} = {value}: {os_reason(error)}") from error
        if current(key) != value:
            raise Problem(f"sysctl {key} = {value}: the kernel made it {current(key)}")
        return True


def _write_file(module: Any, path: str, settings: dict[str, str]) -> tuple[bool, dict[str, str]]:
    lines = ["# Managed by appliance; changes here are undone.\n"]
    lines += [f"{key} = {value}\n" for key, value in settings.items()]
    wanted = Wanted(path=path, data="".join(lines).encode())
    old = read(path)
    same = old == wanted.data and not attributes_differ(
        path, 0o644, "root", "root", module.check_mode
    )
    if not same and not module.check_mode:
        make_parents(path)
        Staged(module, wanted).commit()
    before = (old or b"").decode("utf-8", "replace")
    diff = {
        "before": before,
        "after": wanted.data.decode(),
        "before_header": path,
        "after_header": path,
    }
    return not same, diff


def _apply(module: Any) -> dict[str, Any]:
    settings = {key: normal(str(value)) for key, value in module.params["settings"].items()}
    path = module.params["file"]
    kernel = Kernel(module.check_mode, in_container())
    for key, value in settings.items():
        kernel.want(key, value)
    kept = {key: value for key, value in settings.items() if key not in kernel.refused}
    written, diff = _write_file(module, path, kept)
    live = [f"{key}: {old} -> {new}" for key, (old, new) in kernel.set.items()]
    wanted = [
        {"kind": "sysctl", "name": key, "wanted": {"value": value}} for key, value in kept.items()
    ]
    resources: list[dict[str, Any]] = [{"kind": "file", "name": path}, *wanted]
    return {
        "changed": bool(kernel.set) or written,
        "set": live,
        "not_settable": kernel.refused,
        "resources": resources,
        **({"diff": diff} if module._diff and written else {}),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    try:
        result = _apply(module)
    except Problem as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(**result)
