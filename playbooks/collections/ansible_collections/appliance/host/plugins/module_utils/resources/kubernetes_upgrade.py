"""Brings kubeadm, this host's part of the cluster and kubelet to the next release; or back to the one before."""

from __future__ import annotations

import fcntl
import json
import os
import re
import ssl
import time
import urllib.request
from http.client import HTTPException
from typing import IO, Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.apt import Apt, available
from ansible_collections.appliance.host.plugins.module_utils.dnf import Dnf
from ansible_collections.appliance.host.plugins.module_utils.download import downloaded
from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem
from ansible_collections.appliance.host.plugins.module_utils.releases import newest, numbers

FOLDER = "/var/lib/appliance/kubernetes"
LOCK, LOCK_S = "private.lock", 3600.0
"""Root's alone: whoever may open a file, for reading even, can hold a lock on it."""
PACKAGES = ("kubeadm", "kubectl", "kubelet")
CREDENTIALS = "/etc/kubernetes/kubelet.conf"
PORT = 6443
MOST_VERSION = 1 << 16
PAUSE = 2.0
CRASHES = 3
"""So many starts of kubelet in a row say that the next one fails, too."""


def plain(version: str) -> str:
    """The release without what packagers add."""
    return ".".join(map(str, numbers(version)))


def complaint(text: str) -> str:
    """The line of kubeadm's output that says why it gave up."""
    lines = [line.strip() for line in lines_of(text) if line.strip()]
    errors = [n for n, line in enumerate(lines) if re.search(r"\[ERROR|\berror\b|FATAL", line)]
    if not errors:
        return (lines or ["no reason given"])[-1]
    # Some end in a colon, and the next line has the reason.
    found = lines[errors[0]]
    return " ".join([found, *lines[errors[0] + 1 :][:1]]) if found.endswith(":") else found


class Upgrade:
    """This host on its way."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.given = module.params
        self.tools: Any = Apt(module) if available() else Dnf(module)
        self.note_file = os.path.join(FOLDER, "upgrade.json")
        self.note: dict[str, Any] = {}
        self.restarted = ""

    def begin(self) -> str:
        """Everything that can be refused is, and the way back is written down; what to tell."""
        self.tools.read()
        self.tools.mend()
        wanted, old = self.wanted(), self.installed()
        self.note = self.recall()
        through = self.note.get("to") == wanted and self.note.get("done")
        if old == wanted and (through or self.note.get("to") != wanted):
            # What a killed deployment left at work here has come through; its way back stays.
            if not through:
                self.note = {"from": old, "to": wanted, "done": True}
                self.remember()
            return ""
        if self.note.get("to") != wanted or self.note.get("done"):
            self.refuse_without_return(old)
            self.note = {"from": old, "to": wanted, "kubelet": self.settings()}
        self.refuse_out_of_turn(plain(wanted["kubeadm"]))
        if self.given["first"] and "snapshot" not in self.note:
            self.note["snapshot"] = self.save_etcd()
        self.remember()
        saved = self.note.get("snapshot")
        back = f"packages before: {', '.join(f'{n} {v}' for n, v in self.note['from'].items())}"
        return f"etcd is saved as {saved} (appliance-etcd list); {back}" if saved else back

    def upgrade(self) -> bool:
        """From wherever it stands; whether anything was changed."""
        self.tools.read()
        self.tools.mend()
        self.note = self.recall()
        if self.note.get("done"):
            return False
        try:
            self.advance()
        except Problem as problem:
            raise Problem(self.back(str(problem))) from None
        self.note["done"] = True
        self.remember()
        return True

    def advance(self) -> None:
        """kubeadm, what kubeadm does, kubelet. Raises Problem."""
        wanted: dict[str, str] = self.note["to"]
        # kubectl before kubelet: once kubelet is of the new release nothing is left but its restart.
        self.install({name: wanted[name] for name in ("kubeadm", "kubectl")})
        if not self.note.get("applied"):
            self.kubeadm()
            self.note["applied"] = True
            self.remember()
        self.write(self.given["content"])
        self.install(wanted)
        self.restart()
        self.wait(plain(wanted["kubelet"]))

    def back(self, why: str) -> str:
        """Puts packages and configuration back; the one line that says how things stand."""
        old: dict[str, str] = self.note["from"]
        release = plain(old["kubelet"])
        try:
            self.tools.read()
            self.tools.mend()
            self.install(old)
            self.write(self.note["kubelet"])
            self.restart()
            self.wait(release)
        except Problem as second:
            names = " ".join(f"{name}={version}" for name, version in old.items())
            return f"{why}; nor does {release} come back ({second}): install {names}"
        saved = self.note.get("snapshot")
        if not self.note.get("applied"):
            # The next attempt saves etcd anew.
            self.note.pop("snapshot", None)
            self.remember()
        stands = f"packages and kubelet are of {release} again"
        if self.given["control"] and self.note.get("applied"):
            stands += f", the control plane stays at {plain(self.note['to']['kubeadm'])}"
        return f"{why}; {stands}" + (f"; etcd before it: {saved}" if saved else "")

    def wanted(self) -> dict[str, str]:
        """The packages of the release."""
        release = self.given["release"]
        found = {name: newest(v, release) for name, v in self.offered().items()}
        if "" in found.values():
            self.tools.refresh()
            found = {name: newest(v, release) for name, v in self.offered().items()}
        missing = [name for name, version in found.items() if not version]
        if missing:
            raise Problem(
                f"no repository of this host offers {' and '.join(missing)} {release}: name one of that release beside"
                " the one that is there, or put its packages into the offline source"
            )
        return found

    def refuse_without_return(self, old: dict[str, str]) -> None:
        """What is installed must be to be had again. Raises Problem."""
        offered = self.offered()
        gone = [
            f"{name} {version}" for name, version in old.items() if version not in offered[name]
        ]
        if gone:
            raise Problem(
                f"no repository of this host offers {' and '.join(gone)}, to which it would go back: keep the one of that release"
            )

    def refuse_out_of_turn(self, release: str) -> None:
        """No kubelet is newer than an API. Raises Problem."""
        if self.given["first"]:
            return
        asked = {address: self.api(address) for address in self.given["apis"]}
        seen = {address: version for address, version in asked.items() if version}
        late = [f"{a} ({v})" for a, v in seen.items() if numbers(v) < numbers(release)]
        if not seen:
            raise Problem("no control plane answers, so nobody knows whether its turn has come")
        if len(late) == len(seen) or (late and not self.given["control"]):
            raise Problem(f"the control plane comes first, and {late[0]} is older than {release}")

    def save_etcd(self) -> str:
        """The name of a fresh backup. Raises Problem."""
        kept = self.given["backup"]
        argv = ["appliance-etcd", "save", "--folder", kept["at"], "--keep", str(kept["keep"])]
        return self.said(argv, "etcd is not saved, so nothing was changed").split()[-1]

    def kubeadm(self) -> None:
        """The control plane, or this host's part of the new release. Raises Problem."""
        release = self.said(["kubeadm", "version", "--output", "short"], "kubeadm").strip()
        words = ["apply", release, "--yes"] if self.given["first"] else ["node"]
        flags = {"ignore-preflight-errors": self.given["ignore"], "skip-phases": self.given["skip"]}
        given = [f"--{name}={','.join(values)}" for name, values in flags.items() if values]
        argv = ["kubeadm", "upgrade", *words, *given]
        code, out, err = self.run(argv)
        if code:
            raise Problem(f"{' '.join(argv[:4])}: {complaint(err + out)}")

    def wait(self, release: str) -> None:
        """Until the cluster sees this host ready with the release. Raises Problem."""
        end, said = time.monotonic() + self.given["wait"], ""
        argv = ["kubectl", "--kubeconfig", CREDENTIALS, "--request-timeout", "10s"]
        while True:
            code, out, err = self.run([*argv, "get", "node", self.given["node"], "-o", "json"])
            said = complaint(err) if code else self.unready(json.loads(out), release)
            if not said:
                return
            crashes = self.run(["systemctl", "show", "kubelet", "--property=NRestarts", "--value"])
            if crashes[1].strip().isdigit() and int(crashes[1]) >= CRASHES:
                raise Problem(f"kubelet {release} does not stay up (journalctl -u kubelet)")
            if time.monotonic() > end:
                raise Problem(f"kubelet {release} does not become ready: {said}")
            time.sleep(PAUSE)

    def unready(self, node: dict[str, Any], release: str) -> str:
        """What the cluster lacks of this host; empty for nothing."""
        status = node.get("status", {})
        version = str(status.get("nodeInfo", {}).get("kubeletVersion", ""))
        if numbers(version) != numbers(release):
            return f"the cluster still sees {version or 'no kubelet'}"
        states = [c for c in status.get("conditions") or [] if c.get("type") == "Ready"]
        # Written by kubelet with this host's clock, anew at each start: an older one is of the kubelet before.
        told = max((str(c.get("lastHeartbeatTime", "")) for c in states), default="")
        if told < self.restarted:
            return "the cluster has not heard from it since it was restarted"
        ready = any(c.get("status") == "True" for c in states)
        return "" if ready else str((states or [{}])[0].get("message", "not ready"))

    def install(self, wanted: dict[str, str]) -> None:
        """These packages in these versions. Raises Problem."""
        missing = self.tools.missing([], wanted)
        if missing:
            self.tools.apply(missing, [])

    def installed(self) -> dict[str, str]:
        """What this host goes back to. Raises Problem."""
        found = {name: str(self.tools.version(name)) for name in PACKAGES}
        if "" in found.values():
            raise Problem(f"{' and '.join(n for n, v in found.items() if not v)}: not installed")
        return found

    def offered(self) -> dict[str, list[str]]:
        """Versions of each package in the repositories of this host."""
        found: dict[str, list[str]] = self.tools.offered(PACKAGES)
        return {name: found.get(name, []) for name in PACKAGES}

    def restart(self) -> None:
        """kubelet, as it is installed now."""
        self.said(["systemctl", "daemon-reload"], "systemd does not read its units anew")
        self.run(["systemctl", "reset-failed", "kubelet"])
        self.restarted = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.said(["systemctl", "restart", "kubelet"], "kubelet does not start")

    def settings(self) -> str:
        """kubelet's configuration as it stands."""
        with open(self.given["settings"]) as file:
            return file.read()

    def write(self, content: str) -> None:
        """The same, whole or not at all."""
        path = self.given["settings"]
        with open(f"{path}.new", "w") as file:
            file.write(content)
        os.chmod(f"{path}.new", 0o600)
        os.replace(f"{path}.new", path)

    def api(self, address: str) -> str:
        """What an API server says it is; asked for its answer, not for its identity. Empty where it does not."""
        anybody = ssl._create_unverified_context()
        try:
            url = f"https://{address}:{PORT}/version"
            said = downloaded(
                lambda: urllib.request.urlopen(url, timeout=10, context=anybody), MOST_VERSION, 10
            )
            return str(json.loads(said)["gitVersion"])
        except (OSError, HTTPException, ValueError, KeyError, TypeError, RecursionError):
            return ""

    def recall(self) -> dict[str, Any]:
        """What a run before this one wrote down."""
        try:
            with open(self.note_file) as file:
                found: dict[str, Any] = json.load(file)
                return found
        except (OSError, ValueError):
            return {}

    def remember(self) -> None:
        """Write it down, whole or not at all."""
        with open(f"{self.note_file}.new", "w") as file:
            json.dump(self.note, file)
        os.replace(f"{self.note_file}.new", self.note_file)

    def said(self, argv: list[str], doing: str) -> str:
        """What a program printed. Raises Problem."""
        code, out, err = self.run(argv)
        if code:
            raise Problem(f"{doing}: {complaint(err or out)}")
        return out

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        """A program, to its end."""
        answer: tuple[int, str, str] = self.module.run_command(argv, environ_update={"LC_ALL": "C"})
        return answer


def take(lock: IO[str], seconds: float = LOCK_S) -> None:
    """Waits so long for another run. Raises Problem."""
    end = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise Problem(
                    f"another upgrade of this host does not end: lsof {lock.name}"
                ) from None
            time.sleep(1)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {
            "state": {"choices": ["begun", "upgraded"], "required": True},
            "release": {"required": True},
            "node": {"required": True},
            "control": {"type": "bool", "default": False},
            "first": {"type": "bool", "default": False},
            "apis": {"type": "list", "elements": "str", "required": True},
            "settings": {"type": "path", "required": True},
            "content": {"required": True},
            "backup": {"type": "dict", "default": {}},
            "ignore": {"type": "list", "elements": "str", "default": []},
            "skip": {"type": "list", "elements": "str", "default": []},
            "wait": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=True, tells="", resources=[])
    os.makedirs(FOLDER, exist_ok=True)
    upgrade, tells, changed = Upgrade(module), "", True
    private = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(os.path.join(FOLDER, LOCK), private, 0o600), "w") as lock:
        try:
            # What a killed deployment left at work here comes to its end first.
            take(lock)
            if module.params["state"] == "begun":
                tells = upgrade.begin()
            else:
                changed = upgrade.upgrade()
        except Problem as problem:
            module.fail_json(msg=str(problem))
    resources = [{"kind": "package", "name": name} for name in PACKAGES]
    module.exit_json(changed=changed, tells=tells, resources=resources)
