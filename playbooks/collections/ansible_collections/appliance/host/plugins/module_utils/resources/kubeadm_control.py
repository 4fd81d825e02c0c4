"""Makes a control plane with kubeadm, and brings it to a changed configuration."""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.kubelet import last_words
from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of

ADMIN = "/etc/kubernetes/admin.conf"
STAMP = "/var/lib/appliance/kubernetes/control.sha256"
KUBECTL = ("kubectl", "--kubeconfig", ADMIN, "--request-timeout", "10s")


def complaint(text: str) -> str:
    """The line of kubeadm's output that says why it gave up."""
    lines = [line.strip() for line in lines_of(text) if line.strip()]
    telling = [line for line in lines if "[ERROR" in line or line.startswith("error")]
    return (telling or lines or ["no reason given"])[0]


def digest(path: str) -> str:
    """SHA-256 of a file; empty where it is not there."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


class Control:
    """The door to kubeadm on a control plane."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.config: str = module.params["config"]

    def make(self) -> None:
        """kubeadm init; what an earlier one finished is used again."""
        began = os.path.exists("/etc/kubernetes/pki/ca.crt")
        skip = set(self.module.params["skip"])
        if began:
            # Its files are in place and its ports in use, which is what this phase refuses.
            skip.add("preflight")
        flags = ["--skip-phases", ",".join(sorted(skip))] if skip else []
        self.kubeadm("init", "--config", self.config, "--skip-token-print", *flags)
        self.forget_tokens()

    def update(self) -> None:
        """Static pods and stored configuration as the file has them now."""
        self.kubeadm("init", "phase", "control-plane", "all", "--config", self.config)
        self.ready()
        self.kubeadm("init", "phase", "upload-config", "all", "--config", self.config)

    def forget_tokens(self) -> None:
        """Delete the token init made for people to copy; each joining host gets one of its own."""
        fields = "jsonpath={range .items[*]}{.metadata.name}{' '}{end}"
        select = ["--field-selector", "type=bootstrap.kubernetes.io/token", "-o", fields]
        code, out, err = self.run([*KUBECTL, "-n", "kube-system", "get", "secrets", *select])
        if code:
            self.module.fail_json(
                msg=f"the bootstrap tokens cannot be listed: {complaint(err or out)}"
            )
        for name in out.split():
            self.run([*KUBECTL, "-n", "kube-system", "delete", "secret", name])

    def ready(self) -> None:
        """Wait until the API is ready. Fails with what it said last."""
        end = time.monotonic() + self.module.params["wait"]
        while True:
            code, out, err = self.run([*KUBECTL, "get", "--raw", "/readyz"])
            if not code:
                return
            if time.monotonic() > end:
                said = complaint(err or out)
                why = last_words(self.run) or " (journalctl -u kubelet)"
                self.module.fail_json(msg=f"the API is not ready: {said}{why}")
            time.sleep(2)

    def kubeadm(self, *words: str) -> None:
        """Run kubeadm; its failure ends the module."""
        code, out, err = self.run(["kubeadm", *words])
        if code:
            why = f"{complaint(err + out)}{last_words(self.run)}"
            self.module.fail_json(msg=f"kubeadm {words[0]}: {why}")

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        """A program, to its end."""
        answer: tuple[int, str, str] = self.module.run_command(argv, environ_update={"LC_ALL": "C"})
        return answer


def stored() -> str:
    """The digest of the configuration this control plane was last brought to; empty: never."""
    try:
        with open(STAMP) as file:
            return str(json.load(file)["digest"])
    except (OSError, ValueError, KeyError):
        return ""


def store(found: str) -> None:
    """Write the digest down, whole or not at all."""
    os.makedirs(os.path.dirname(STAMP), exist_ok=True)
    with open(f"{STAMP}.new", "w") as file:
        json.dump({"digest": found}, file)
    os.replace(f"{STAMP}.new", STAMP)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {
            "config": {"type": "path", "required": True},
            "make": {"type": "bool", "default": True},
            "skip": {"type": "list", "elements": "str", "default": []},
            "wait": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    control = Control(module)
    wanted, there = digest(control.config), stored() if os.path.exists(ADMIN) else ""
    makes = module.params["make"] and not there
    done = "" if wanted == there else "made" if makes else "updated"
    if not module.check_mode:
        if done == "made":
            control.make()
        elif done:
            control.update()
        control.ready()
        store(wanted)
    module.exit_json(changed=bool(done), done=done)
