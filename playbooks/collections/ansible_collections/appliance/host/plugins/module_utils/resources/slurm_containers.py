"""Brings enroot and Pyxis to a host from files that are what they are said to be, and takes away what it brought."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.apt import Apt, available
from ansible_collections.appliance.host.plugins.module_utils.disk import sha256
from ansible_collections.appliance.host.plugins.module_utils.dnf import Dnf
from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem, telling_line

NOTE = "/var/lib/appliance/slurm-containers.json"
PLUGIN = "/usr/local/lib/slurm/spank_pyxis.so"
PLUGSTACK = "/etc/slurm/plugstack.conf"
HEADER = "/usr/include/slurm/slurm_version.h"
NUMBER = re.compile(r"#define\s+SLURM_VERSION_NUMBER\s+(0x[0-9a-fA-F]+)")
INCLUDE = "include /etc/slurm/plugstack.conf.d/*.conf"
RELEASE = re.compile(r"^(?:\./)?(?:nvslurm-plugin-)?pyxis-v?(\d+(?:\.\d+)+)$")

FILE = {"file": {"required": True}, "sha256": {"required": True}}
SPEC = {
    "state": {"choices": ["present", "absent"], "default": "present"},
    "folder": {"type": "path", "required": True},
    "packages": {"type": "list", "elements": "dict", "default": [], "options": FILE},
    "pyxis": {"type": "dict", "options": FILE},
    "at": {"default": ""},
    "owned": {"type": "list", "elements": "str", "default": []},
}


class Bringer:
    """What this host has, and the way to what it shall have."""

    def __init__(self, module: Any, root: str = "") -> None:
        self.module = module
        self.root = root
        self.folder = module.params["folder"]
        self.tools: Any = Apt(module) if available() else Dnf(module)
        self.note = _read_note(root + NOTE)
        self.changed = False
        self.resources: list[dict[str, str]] = []

    def bring(self) -> dict[str, Any]:
        """Everything present. Raises Problem."""
        packages, pyxis = self.module.params["packages"], self.module.params["pyxis"]
        wanted = [self._pinned(one) for one in packages]
        source = self._pinned(pyxis)
        release = self._slurm()
        packages = {name: (path, v) for path in wanted for name, v in [self._described(path)]}
        given = {"owned": self.module.params["owned"], "at": self.module.params["at"]}
        before = self.note.get("packages", [])
        # Noted before it is done, so that what a run that is cut off leaves can be taken away.
        self._write_note(
            {**self.note, **given, "plugin": PLUGIN, "packages": sorted({*before, *packages})}
        )
        self._install(packages, [name for name in before if name not in packages])
        built = self._built(source, pyxis["sha256"], release)
        self._include()
        self._write_note({**built, **given, "packages": sorted(packages)})
        managed = (PLUGIN, PLUGSTACK, NOTE)
        self.resources += [{"kind": "file", "name": name} for name in managed]
        return self._result(slurm=release, removed=False)

    def take_away(self) -> dict[str, Any]:
        """What the note names, and the note last: a run that is cut off is taken up by the next."""
        if not self.note:
            return self._result(removed=False)
        self.changed = True
        if not self.module.check_mode:
            # First what tells Slurm to load it: with a plugin missing no job would start.
            for name in (*self.note["owned"], self.note["plugin"]):
                _remove(self.root + name)
            shutil.rmtree(self.root + self.folder, ignore_errors=True)
            self._install({}, self.note["packages"])
            _remove(self.root + NOTE)
        return self._result(removed=True)

    def _result(self, **more: Any) -> dict[str, Any]:
        return {"changed": self.changed, "resources": self.resources, **more}

    def _pinned(self, wanted: dict[str, str]) -> str:
        path = os.path.join(self.root + self.folder, os.path.basename(wanted["file"]))
        try:
            found = sha256(path)
        except OSError as error:
            raise Problem(f"{path}: {error.strerror}") from None
        if found != wanted["sha256"]:
            raise Problem(f"{path}: its digest is {found}, {wanted['sha256']} is wanted")
        return path

    def _slurm(self) -> str:
        """The release the plugin will be for; packages keep headers and daemons at one version."""
        try:
            with open(self.root + HEADER) as file:
                found = NUMBER.search(file.read())
        except OSError as error:
            raise Problem(f"{HEADER}: {error.strerror}: install Slurm's headers") from None
        if not found:
            raise Problem(f"{HEADER}: tells no release")
        number = int(found.group(1), 16)
        return f"{number >> 16}.{number >> 8 & 255:02}.{number & 255}"

    def _install(self, wanted: dict[str, tuple[str, str]], gone: list[str]) -> None:
        """Brings packages to the versions of their files, given by name."""
        self.tools.read()
        self.tools.mend()
        different = [p for name, (p, v) in wanted.items() if self.tools.version(name) != v]
        unwanted = self.tools.unwanted(gone)
        if different or unwanted:
            self.changed = True
            self.tools.apply(different, unwanted)
        self.resources += [{"kind": "package", "name": name} for name in wanted]

    def _described(self, path: str) -> tuple[str, str]:
        if path.endswith(".deb"):
            said = self._ask(["dpkg-deb", "--showformat", "${Package}\t${Version}", "--show", path])
        else:
            form = r"%{NAME}\t%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}"
            said = self._ask(["rpm", "-qp", "--nosignature", "--qf", form, path])
        name, _, version = said.strip().partition("\t")
        if not version:
            raise Problem(f"{path}: is no package")
        return name, version

    def _built(self, source: str, pinned: str, release: str) -> dict[str, str]:
        """What the note says of the plugin, which is built where it is not that."""
        before = {key: self.note.get(key) for key in ("slurm", "source", "plugin_sha256")}
        there = sha256(self.root + PLUGIN) if os.path.exists(self.root + PLUGIN) else None
        if there and before == {"slurm": release, "source": pinned, "plugin_sha256": there}:
            return {key: self.note[key] for key in ("plugin", "pyxis", *before)}
        self.changed = True
        made = {"plugin": PLUGIN, "slurm": release, "source": pinned}
        if self.module.check_mode:
            return {**made, "pyxis": "", "plugin_sha256": ""}
        with tempfile.TemporaryDirectory(prefix="appliance-pyxis-") as place:
            pyxis = unpack(source, place)
            top = os.path.join(place, os.listdir(place)[0])
            # An archive may hold a plugin that was built elsewhere.
            _remove(os.path.join(top, "spank_pyxis.so"))
            self._ask(["make", "-C", top, "spank_pyxis.so"], "building Pyxis")
            self._place(os.path.join(top, "spank_pyxis.so"))
        return {**made, "pyxis": pyxis, "plugin_sha256": sha256(self.root + PLUGIN)}

    def _place(self, built: str) -> None:
        """In one step: a job that starts meanwhile loads the one or the other."""
        target = self.root + PLUGIN
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        fresh = f"{target}.{os.getpid()}.tmp"
        shutil.copyfile(built, fresh)
        os.chmod(fresh, 0o644)
        os.replace(fresh, target)

    def _include(self) -> None:
        """plugstack.conf may be the administrator's: one line is added where it lacks it."""
        path = self.root + PLUGSTACK
        text = ""
        if os.path.exists(path):
            with open(path) as file:
                text = file.read()
        if INCLUDE in lines_of(text):
            return
        self.changed = True
        if not self.module.check_mode:
            with open(path, "a") as file:
                file.write(("" if not text or text.endswith("\n") else "\n") + INCLUDE + "\n")

    def _write_note(self, note: dict[str, Any]) -> None:
        if note == self.note:
            return
        self.changed = True
        self.note = note
        if self.module.check_mode:
            return
        path = self.root + NOTE
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        fresh = f"{path}.{os.getpid()}.tmp"
        with open(fresh, "w") as file:
            json.dump(note, file, indent=1, sort_keys=True)
        os.replace(fresh, path)

    def _ask(self, argv: list[str], doing: str = "") -> str:
        code, out, err = self.module.run_command(
            argv, environ_update={"LC_ALL": "C"}, handle_exceptions=True
        )
        if code:
            raise Problem(f"{doing or ' '.join(argv)}: {telling_line(err or out)}")
        return str(out)


def unpack(archive: str, place: str) -> str:
    """Unpack an archive of one folder; returns the release its name tells, empty where it tells none. Raises Problem."""
    try:
        with tarfile.open(archive) as opened:
            # Python 3.14 takes this filter by default, and 3.12 warns where none is chosen. 3.8 may have none.
            opened.extraction_filter = getattr(tarfile, "data_filter", None)
            members = [m for m in opened.getmembers() if m.isfile() or m.isdir()]
            names = [os.path.normpath(m.name) for m in members]
            tops = {name.split(os.sep)[0] for name in names} - {"."}
            if len(tops) != 1 or any(os.path.isabs(n) or n.startswith("..") for n in names):
                raise Problem(f"{archive}: does not hold exactly one folder")
            for member in members:
                member.uid = member.gid = 0
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                opened.extract(member, place)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Problem(f"{archive}: {error}") from None
    found = RELEASE.match(tops.pop())
    return found.group(1) if found else ""


def _read_note(path: str) -> dict[str, Any]:
    try:
        with open(path) as file:
            note = json.load(file)
    except FileNotFoundError:
        return {}
    except ValueError:
        raise Problem(f"{path}: cannot be read; remove it, and what it should name stays") from None
    return note if isinstance(note, dict) else {}


def _remove(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)


def main() -> None:
    """Run the module."""
    required = [("state", "present", ["pyxis"])]
    module = AnsibleModule(SPEC, supports_check_mode=True, required_if=required)
    os.umask(0o022)
    try:
        bringer = Bringer(module)
        present = module.params["state"] == "present"
        result = bringer.bring() if present else bringer.take_away()
    except Problem as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(**result)
