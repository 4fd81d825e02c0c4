"""Has sshd ask Slurm whether a job of whoever logs in runs on this host, in a way that locks nobody out for good."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.disk import (
    Staged,
    Wanted,
    about,
    make_parents,
    read,
)
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem, telling_line

SPEC = {
    "state": {"choices": ["present", "absent", "kept", "back"], "default": "present"},
    "account": {"default": "root"},
    "groups": {"type": "list", "elements": "str", "default": []},
    "says": {"default": ""},
    "umask": {"type": "bool", "default": False},
    "undo_after": {"type": "int", "default": 300},
    "file": {"type": "path", "default": "/etc/pam.d/sshd"},
    "note": {"type": "path", "default": "/var/lib/appliance/pam.d-sshd"},
}
BEGIN, END = "# appliance, stage slurm: ", "# appliance: end"
WORDS = {
    "account": "whom the system, the site or its admins do not name needs a job here",
    "session": "the session of a job stays in the job's control group, from where pam_systemd would take it",
}
INCLUDE = re.compile(r"^@include[ \t]+common-(account|session)[ \t]*$", re.MULTILINE)
BLOCK = re.compile(
    rf"^{BEGIN}[^\n]*\n(?:[^\n]*\n)*?{END}, in the place of (@include common-\w+)$", re.MULTILINE
)
CONFFILE = re.compile(r"^ (\S+) ([0-9a-f]{32})", re.MULTILINE)
UNIT = "appliance-ssh-back"


class Door:
    """sshd's file of PAM on this host."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.file, self.note = module.params["file"], module.params["note"]
        # Beside the file, so that it comes back in one step; no service has a name that begins with a dot.
        folder, name = os.path.split(self.file)
        self.before = os.path.join(folder, f".{name}.before")

    def write(self) -> dict[str, Any]:
        """The file as it is wanted; what was there comes back by itself unless it is kept."""
        now = self._text(self.file)
        wanted = original = self._original(now)
        if self.present:
            wanted = self._asking(original)
        # Left by a run that was cut off before anybody had logged in anew.
        unproved = os.path.exists(self.before)
        changed = wanted != now or unproved
        if changed and not self.module.check_mode:
            self._put(self.note, original)
            self._arm(now if not unproved else self._text(self.before))
            self._put(self.file, wanted)
        return {"changed": changed, "unproved": unproved or wanted != now, **self._managed(wanted)}

    def keep(self) -> dict[str, Any]:
        """A new login has succeeded. Raises Problem where the file has gone back meanwhile."""
        if self.module.check_mode:
            return {"changed": False, "unproved": False, **self._managed(self._text(self.file))}
        self._disarm()
        if not os.path.exists(self.before):
            raise Problem(
                f"{self.file}: was put back after {self.module.params['undo_after']} s, before the new login was seen; "
                "repeat the deployment"
            )
        os.unlink(self.before)
        now = self._text(self.file)
        if BEGIN not in now and os.path.exists(self.note):
            os.unlink(self.note)
        return {"changed": True, "unproved": False, **self._managed(now)}

    def go_back(self) -> dict[str, Any]:
        """What was there before."""
        there = os.path.exists(self.before)
        if there and not self.module.check_mode:
            with about(self.file):
                os.replace(self.before, self.file)
            self._disarm()
        return {"changed": there, "unproved": False, **self._managed(self._text(self.file))}

    @property
    def present(self) -> bool:
        """Whether a job is to be asked for."""
        return bool(self.module.params["state"] == "present")

    def _text(self, path: str) -> str:
        found = read(path)
        if found is None:
            raise Problem(f"{path}: is not there; put back its package's: apt-get install --reinstall -o Dpkg::Options::=--force-confmiss openssh-server")  # fmt: skip
        return found.decode("utf-8", "surrogateescape")

    def _original(self, now: str) -> str:
        """The file without what is ours: the package's; else as it was found at the first time."""
        bare = BLOCK.sub(r"\1", now)
        noted = os.path.exists(self.note) and (self.present or bare != now)
        if not noted or hashlib.md5(bare.encode("utf-8", "surrogateescape")).hexdigest() in self._packaged():  # fmt: skip
            return bare
        return self._text(self.note)

    def _packaged(self) -> set[str]:
        code, out, _ = self.module.run_command(
            ["dpkg-query", "-W", "-f", "${Conffiles}\n", "openssh-server"], handle_exceptions=True
        )
        return set() if code else {d for path, d in CONFFILE.findall(out) if path == self.file}

    def _asking(self, original: str) -> str:
        found = INCLUDE.findall(original)
        if sorted(found) != ["account", "session"]:
            raise Problem(
                f"{self.file}: includes {' and '.join(f'common-{name}' for name in found) or 'nothing'}, "
                "common-account and common-session are wanted, each once; put back its package's file"
            )
        return INCLUDE.sub(lambda match: self._block(match.group(1)), original)

    def _block(self, kind: str) -> str:
        lines = self._account() if kind == "account" else self._session()
        return "\n".join(
            (
                f"{BEGIN}{WORDS[kind]}",
                *(f"{kind} {line}" for line in lines),
                f"{END}, in the place of @include common-{kind}",
            )
        )

    def _exempt(self, over: int) -> list[str]:
        """Whoever is let in anyway passes over as many lines as stand between these and where they go on."""
        names = ":".join(dict.fromkeys(("root", self.module.params["account"])))
        groups = ":".join(self.module.params["groups"])
        asked = ["uid < 1000", f"user in {names}", *([f"user ingroup {groups}"] if groups else [])]
        last = len(asked) - 1
        return [
            f"[success={over + last - number} default=ignore] pam_succeed_if.so quiet {words}"
            for number, words in enumerate(asked)
        ]

    def _account(self) -> list[str]:
        """A substack: a line of common-account that is enough by itself would end all of it otherwise."""
        says = self.module.params["says"]
        told = [f"optional pam_echo.so {says}"] if says else []
        good = f"success={len(told)}" if told else "success=ok"
        adopt = f"[{good} default=bad] pam_slurm_adopt.so action_adopt_failure=deny action_generic_failure=deny"
        return [
            "substack common-account",
            *self._exempt(1 + len(told)),
            adopt,
            *told,
            "required pam_permit.so",
        ]

    def _session(self) -> list[str]:
        own = ["required pam_unix.so"]
        if self.module.params["umask"]:
            own.append("optional pam_umask.so")
        return [
            *self._exempt(1),
            "[default=2] pam_permit.so",
            "substack common-session",
            f"[default={len(own)}] pam_permit.so",
            *own,
        ]

    def _put(self, path: str, text: str) -> None:
        make_parents(path)
        data = text.encode("utf-8", "surrogateescape")
        if read(path) != data:
            me, mine = str(os.geteuid()), str(os.getegid())
            Staged(self.module, Wanted(path=path, data=data, owner=me, group=mine)).commit()

    def _arm(self, before: str) -> None:
        """The host brings the file back, whatever becomes of this run."""
        self._disarm()
        self._put(self.before, before)
        after = str(self.module.params["undo_after"])
        argv = ["systemd-run", "--quiet", "--collect", f"--unit={UNIT}", f"--on-active={after}"]
        argv += ["--timer-property=AccuracySec=1s", "mv", "-f", self.before, self.file]
        code, out, err = self.module.run_command(argv, handle_exceptions=True)
        if code:
            os.unlink(self.before)
            raise Problem(f"{self.file}: is not touched, for nothing would put it back: {telling_line(err or out)}")  # fmt: skip

    def _disarm(self) -> None:
        self.module.run_command(["systemctl", "--quiet", "stop", f"{UNIT}.timer"], handle_exceptions=True)  # fmt: skip

    def _managed(self, wanted: str) -> dict[str, Any]:
        """Without a block the file is its package's business."""
        if BEGIN not in wanted:
            return {"resources": []}
        digest = hashlib.sha256(wanted.encode("utf-8", "surrogateescape")).hexdigest()
        fields = {"mode": "0644", "owner": "root", "group": "root", "sha256": digest}
        return {"resources": [{"kind": "file", "name": self.file, "wanted": fields}]}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    os.umask(0o022)
    try:
        door = Door(module)
        acts = {"kept": door.keep, "back": door.go_back}
        result = acts.get(module.params["state"], door.write)()
    except Problem as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(**result)
