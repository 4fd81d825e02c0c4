"""Makes groups and users, and sets the SSH keys of users."""

from __future__ import annotations

import grp
import os
import pwd
import time
from contextlib import suppress
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.disk import (
    Staged,
    Wanted,
    about,
    attributes_differ,
    differences,
    read,
    set_attributes,
)
from ansible_collections.appliance.host.plugins.module_utils.outcome import (
    Problem,
    last_line,
    os_reason,
)
from ansible_collections.appliance.host.plugins.module_utils.places import (
    is_closed,
    open_folder,
    opened,
    removed,
)
from ansible_collections.appliance.host.plugins.module_utils.ssh_folder import (
    SshFolder,
    authorized,
)

SPEC = {
    "groups": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"required": True},
            "gid": {"type": "int"},
            "system": {"type": "bool", "default": False},
        },
    },
    "users": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"required": True},
            "uid": {"type": "int"},
            "group": {},
            "groups": {"type": "list", "elements": "str", "default": []},
            "shell": {},
            "home": {},
            "make_home": {"type": "bool", "default": True},
            "system": {"type": "bool", "default": False},
            "keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
            "keys_apart": {"type": "bool", "default": False, "no_log": False},
            "locked_password": {"type": "bool", "default": True, "no_log": False},
            "state": {"default": "present", "choices": ["present", "absent"]},
        },
    },
    "only_in": {"type": "list", "elements": "str", "default": []},
    "deploys_as": {"default": ""},
    "keys_in": {"default": "/etc/ssh/authorized_keys.d", "no_log": False},
}
SHADOW = "/etc/shadow"
DISMISSED = "1"
"""The day an account of somebody dismissed expired: the second of 1970 (shadow(5)); a date somebody chose is left alone."""
NO_LOGIN = "/usr/sbin/nologin"
LOCK_SECONDS = 30
EXPIRES = 7
HOMES = "/home"
FIRST_OF_PEOPLE = 1000


class Accounts:
    """Compares, and calls the shadow tools for what differs."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.check = module.check_mode
        self.changes: list[str] = []
        self.resources: list[dict[str, Any]] = []

    def group(self, item: dict[str, Any]) -> None:
        """Make a group or correct its number."""
        name, gid = item["name"], item["gid"]
        self.resources.append(
            {"kind": "group", "name": name, "wanted": {} if gid is None else {"gid": gid}}
        )
        number = [] if gid is None else ["-g", str(gid)]
        try:
            found = grp.getgrnam(name)
        except KeyError:
            system = ["--system"] if item["system"] else []
            return self._do(["groupadd", *system, *number, name], f"group {name}")
        if gid is not None and found.gr_gid != gid:
            self._do(["groupmod", *number, name], f"group {name}")
        return None

    def user(self, item: dict[str, Any]) -> None:
        """Make, correct or remove a user."""
        name = item["name"]
        found = _passwd(name)
        if item["state"] == "absent":
            if found:
                self._do(["userdel", name], f"user {name}")
            return
        self.resources.append({"kind": "user", "name": name, "wanted": _wanted(item)})
        if found is not None and name != "root":
            self._keep_apart_from_root(item, found)
        if found is None:
            _see_to_place(item)
            self._do(["useradd", *_new(item), name], f"user {name}")
        else:
            options = _corrections(item, found)
            if options:
                self._do(["usermod", *options, name], f"user {name}")
        if item["keys"]:
            self._keys(item)

    def _keep_apart_from_root(self, item: dict[str, Any], found: pwd.struct_passwd) -> None:
        name = item["name"]
        if found.pw_uid == 0 and item["uid"] is None:
            raise Problem(f"user {name}: has root's number, give it one of its own: usermod -u")
        if found.pw_gid == 0 and item["group"] is None and not _is_group(name):
            self._do(["groupadd", name], f"group {name}")

    def dismiss(self, group: str, stay: set[str], given: set[str]) -> None:
        """Take members who are not to ``stay`` out of ``group``, and from those not ``given`` the login; their files remain."""
        members = grp.getgrnam(group).gr_mem if _is_group(group) else []
        for name in sorted(set(members) - stay):
            entry = _passwd(name)
            if name == self.module.params["deploys_as"]:
                raise Problem(
                    f"user {name}: deployments log in as it, and would no more without {group}:"
                    " keep it in base.admins, or log in as somebody else first (access.user)"
                )
            if entry is not None and name not in given and entry.pw_uid != 0:
                self._do(
                    ["usermod", "-s", NO_LOGIN, "-p", "*", "-e", DISMISSED, name], f"user {name}"
                )
                self._revoke(entry)
            self._do(["gpasswd", "-d", name, group], f"user {name}")

    def _revoke(self, entry: pwd.struct_passwd) -> None:
        """An account that has expired opens to no key; those that are left would, once somebody gives it back."""
        name = entry.pw_name
        try:
            if SshFolder(self.module, entry).revoke(self.check):
                self.changes.append(f"keys of {name}")
        except (OSError, Problem) as error:
            reason = os_reason(error) if isinstance(error, OSError) else str(error)
            self.changes.append(f"keys of {name}: stay in {entry.pw_dir}, {reason}")
        if not self.check:
            folder = self.module.params["keys_in"]
            with about(folder), suppress(FileNotFoundError), open_folder(folder) as at:
                removed(name, at)

    def _apart(self, name: str) -> str:
        return os.path.join(self.module.params["keys_in"], name)

    def _keys(self, item: dict[str, Any]) -> None:
        entry = _passwd(item["name"])
        text = "".join(f"{key.strip()}\n" for key in item["keys"]).encode()
        if entry is None:
            self.changes.append(f"keys of {item['name']}")
        elif item["keys_apart"]:
            self._keys_apart(item["name"], text)
        else:
            self._keys_at_home(entry, text)

    def _keys_at_home(self, entry: pwd.struct_passwd, text: bytes) -> None:
        folder = SshFolder(self.module, entry)
        self.resources.append({"kind": "file", "name": folder.file})
        if folder.is_as(text):
            return
        if entry.pw_name == self.module.params["deploys_as"]:
            _keep_way_in(folder, authorized(text))
        self.changes.append(f"keys of {entry.pw_name}")
        if not self.check:
            self.changes += folder.write(text)

    def _keys_apart(self, name: str, text: bytes) -> None:
        """sshd reads them as the user (sshd_config(5), AuthorizedKeysFile)."""
        path = self._apart(name)
        self.resources.append({"kind": "file", "name": path})
        wanted = Wanted(path, text, 0o644)
        folder = os.path.dirname(path)
        if self._folder(folder):
            self.changes.append(folder)
        attributes = (wanted.mode, wanted.owner, wanted.group)
        if read(path) == wanted.data and not attributes_differ(path, *attributes, self.check):
            return
        self.changes.append(f"keys of {name}")
        if not self.check:
            Staged(self.module, wanted).commit()

    def _folder(self, folder: str) -> bool:
        wanted = (0o755, "root", "root")
        with about(folder):
            try:
                with open_folder(folder) as at:
                    if not differences(os.fstat(at), folder, *wanted):
                        return False
            except FileNotFoundError:
                pass
            if not self.check:
                with open_folder(folder, make=True) as at, opened(at) as handle:
                    set_attributes(handle, *wanted, folder)
        return True

    def _do(self, argv: list[str], what: str) -> None:
        self.changes.append(f"{what}: {argv[0]}")
        if self.check:
            return
        end = time.monotonic() + LOCK_SECONDS
        code, out, err = self.module.run_command(argv, environ_update={"LC_ALL": "C"})
        while code and "cannot lock" in err and time.monotonic() < end:
            time.sleep(1)
            code, out, err = self.module.run_command(argv, environ_update={"LC_ALL": "C"})
        if code:
            raise Problem(f"{what}: {last_line(err or out)}")


def _keep_way_in(folder: SshFolder, wanted: set[bytes]) -> None:
    """One of the keys that are there has opened this very connection."""
    name, now = folder.entry.pw_name, authorized(folder.keys())
    if folder.is_strange():
        raise Problem(f"user {name}: deployments log in as it, and {folder.path} is no folder of its own; make it one")  # fmt: skip
    if now and not now & wanted:
        raise Problem(
            f"user {name}: deployments log in as it, and none of the keys it has now would stay; keep the one in use in "
            "base.admins until a deployment with the new one has succeeded"
        )


def _passwd(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _shell(item: dict[str, Any]) -> str:
    return item["shell"] or (NO_LOGIN if item["system"] else "/bin/bash")


def _new(item: dict[str, Any]) -> list[str]:
    options = ["-s", _shell(item), "-p", "*"]
    options += ["--system"] if item["system"] else []
    # Without a mode of its own useradd leaves a home open to all (Debian's login.defs).
    closed = ["-m", "-K", "HOME_MODE=0700"]
    options += closed if item["make_home"] and not item["system"] else ["-M"]
    # A password that nobody has grows no older (base.strict): PAM would refuse the key, too, and ask for a new one.
    ageless = ["-K", "PASS_MIN_DAYS=0", "-K", "PASS_MAX_DAYS=99999"]
    options += [] if item["system"] else ageless
    if item["uid"] is None and (number := _number_left(item)):
        options += ["-u", str(number)]
    for flag, key in (("-u", "uid"), ("-g", "group"), ("-d", "home")):
        if item[key] is not None:
            options += [flag, str(item[key])]
    if item["group"] is None:
        options.append("-N" if _is_group(item["name"]) else "-U")
        options += ["-g", item["name"]] if _is_group(item["name"]) else []
    return options + (["-G", ",".join(item["groups"])] if item["groups"] else [])


def _see_to_place(item: dict[str, Any]) -> None:
    """useradd makes a home by its path, and takes one that somebody has made before for the new user's."""
    if item["system"] or not item["make_home"]:
        return
    folder = os.path.dirname(item["home"] or f"{HOMES}/{item['name']}")
    with about(folder):
        try:
            with open_folder(folder) as at:
                closed = is_closed(os.fstat(at))
        except FileNotFoundError:
            return
    if not closed:
        raise Problem(
            f"{folder}: homes lie only in a folder of root's that others cannot write to; "
            f"look whose it is, then: chown root:root {folder}; chmod 755 {folder}"
        )


def _number_left(item: dict[str, Any]) -> int:
    """Whose the home is that an earlier account of that name left; 0 where nobody may have it again."""
    try:
        number = _owner_of(item["home"] or f"{HOMES}/{item['name']}")
        pwd.getpwuid(number)
    except OSError:
        return 0
    except KeyError:
        return number if number >= FIRST_OF_PEOPLE else 0
    return 0


def _owner_of(path: str) -> int:
    return os.lstat(path).st_uid


def _is_group(name: str) -> bool:
    return any(group.gr_name == name for group in grp.getgrall())


def _corrections(item: dict[str, Any], found: pwd.struct_passwd) -> list[str]:
    options: list[str] = []
    if item["uid"] is not None and item["uid"] != found.pw_uid:
        options += ["-u", str(item["uid"])]
    primary = item["group"] or (item["name"] if _is_group(item["name"]) or not found.pw_gid else "")
    if primary and primary not in {_group_name(found.pw_gid), str(found.pw_gid)}:
        options += ["-g", primary]
    if item["home"] and item["home"] != found.pw_dir:
        options += ["-d", item["home"]]
    if (item["shell"] or not item["system"]) and _shell(item) != found.pw_shell:
        options += ["-s", _shell(item)]
    member = {group.gr_name for group in grp.getgrall() if found.pw_name in group.gr_mem}
    own = _group_name(found.pw_gid)
    if {*member} - {own} != {*item["groups"]} - {own}:
        options += ["-G", ",".join(item["groups"])]
    if item["locked_password"] and _has_password(item["name"]):
        options += ["-p", "*"]
    if _shadow(item["name"])[EXPIRES:] == [DISMISSED]:
        options += ["-e", ""]
    return options


def _wanted(item: dict[str, Any]) -> dict[str, Any]:
    """The fields of the user's state that the caller decides."""
    wanted: dict[str, Any] = {"groups": sorted(item["groups"])}
    wanted.update({key: item[key] for key in ("uid", "home") if item[key] is not None})
    if item["shell"] or not item["system"]:
        wanted["shell"] = _shell(item)
    if item["locked_password"]:
        wanted["password"] = "locked"
    return wanted


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _has_password(name: str) -> bool:
    return not _shadow(name)[1].startswith(("*", "!"))


def _shadow(name: str) -> list[str]:
    """The fields up to the day the account expires; of one without an entry none has a value."""
    with about(SHADOW), open(SHADOW, "rb") as file:
        for line in file.read().split(b"\n"):
            fields = os.fsdecode(line).split(":")
            if fields[0] == name:
                return fields[: EXPIRES + 1]
    return [name, "*"]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    accounts = Accounts(module)
    try:
        for group in module.params["groups"]:
            accounts.group(group)
        for user in module.params["users"]:
            accounts.user(user)
        present = [user for user in module.params["users"] if user["state"] == "present"]
        for group in module.params["only_in"]:
            stay = {user["name"] for user in present if group in user["groups"]}
            accounts.dismiss(group, stay, {user["name"] for user in present})
    except Problem as problem:
        module.fail_json(msg=str(problem), changes=accounts.changes)
    module.exit_json(
        changed=bool(accounts.changes), changes=accounts.changes, resources=accounts.resources
    )
