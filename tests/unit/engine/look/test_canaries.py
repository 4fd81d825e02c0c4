"""Secrets in every kind of file that root could be led to read, and none of them in what a host answers or anybody is told."""

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.checks.check import View
from appliance.engine.look.fact_history import store_facts
from appliance.engine.look.gather import Round
from appliance.engine.look.posture import Day, keep_postures, posture_differences
from appliance.engine.look.run_record import Findings, record_of, save
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.probe.__main__ import answer
from appliance.report import nagios
from appliance.report.difference_lines import lines
from appliance.stages.base import ids as base_ids
from appliance.stages.base.checks.drift import judge_drift
from appliance.stages.base.checks.foreign import judge_foreign

BLOB = base64.b64encode(b"\0\0\0\x0bssh-ed25519" + b"k" * 36).decode()
WORD = "CANARY"


class Canaries:
    """Each a word of its own, so that a test says which one sang."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"{WORD}{self.count:04}x"


def roots(new: Canaries) -> dict[str, Any]:
    """Files of root's alone, in the forms that such files have."""
    forms = {
        "/etc/munge/munge.key": "{}",
        "/etc/slurm/slurmdbd.conf": "StoragePass={}\nStorageUser=slurm\n",
        "/etc/gshadow": "sudo:{}::\n",
        "/etc/krb5.keytab": "\0\5{}",
        "/etc/fstab": "//server/share /mnt cifs username=u,password={} 0 0\n",
        "/etc/security/opasswd": "root:0:1:{}\n",
        "/etc/pam.d/common-auth": "auth required pam_x.so password={}\n",
        "/etc/environment": "TOKEN={}\n",
        "/etc/kubernetes/admin.conf": "token: {}\n",
        "/root/.ssh/id_ed25519": "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END\n",
        "/root/.netrc": "machine x login root password {}\n",
        "/root/.my.cnf": "[client]\npassword={}\n",
        "/root/.bash_history": "mysql -p{}\n",
        "/var/log/auth.log": "Failed password for {}\n",
        "/var/crash/core.1": "\x7fELF{}",
        "/var/lib/appliance/token": "{}\n",
        "/proc/1/environ": "SECRET={}\0",
        "/proc/1/cmdline": "daemon\0--password={}\0",
        "/srv/keys": "ssh-ed25519 " + BLOB + ' {}\ncommand="{}" ssh-ed25519 ' + BLOB + "\n",
    }
    return {at: {"text": text.replace("{}", new()), "mode": "0600"} for at, text in forms.items()}


def shown(new: Canaries) -> dict[str, Any]:
    """Files that root reads for what they do, and whose words are told in part."""
    environment = f"#!/bin/sh\necho HTTPS_PROXY=http://u:{new()}@proxy/\n"
    return {
        "/etc/sudoers.d/x": f"eve ALL=(ALL) NOPASSWD: /usr/bin/curl -u a:{new()} https://x/\n",
        "/etc/cron.d/x": f"* * * * * root curl -u a:{new()} https://x/?token={new()}\n",
        "/etc/cron.d/y": f"{new()}\n",
        "/etc/cron.d/z": f"TOKEN={new()}\n* * * * * root id\n",
        "/etc/systemd/system/x.service": f"[Service]\nEnvironment=TOKEN={new()}\n",
        "/etc/systemd/system/ssh.service.d/zz.conf": f"[Service]\nEnvironment=T={new()}\n",
        "/run/systemd/transient/t.service": f"ExecStart=/bin/x --password={new()}\n",
        "/etc/apt/sources.list": f"deb [trusted=yes] https://u:{new()}@mirror/ x main\n",
        "/etc/apt/sources.list.d/x.list": f"deb https://u:{new()}@mirror/{new()} x main\n",
        "/etc/ssh/sshd_config.d/x.conf": f"ForceCommand /bin/x {new()}\n",
        "/var/spool/cron/crontabs/mallory0": f"* * * * * curl -u a:{new()} https://x/\n",
        "/etc/shadow": f"root:$6$s${new()}:1::::::\n",
        "/usr/bin/rpm": {"text": "#!/bin/sh\necho x is not owned\n", "mode": "0755"},
        "/usr/bin/systemctl": {"text": environment, "mode": "0755"},
        "/run/systemd/system/x": "",
        "/proc/self/mountinfo": "22 1 0:20 / / rw - ext4 /dev/sda1 rw\n"
        f"23 22 0:21 / /mnt rw - davfs https://u:{new()}@server/share rw,password={new()}\n",
        "/root/.ssh/authorized_keys": f'environment="T={new()}",command="x {new()}" ssh-ed25519 {BLOB} root\n'
        f"{new()} is no key\n",
    }


ATTEMPTS = (
    "authorized_keys",
    "authorized_keys2",
    "hard link",
    "linked folder",
    "linked home",
    "pipe",
    "linked twice",
    "linked dot file",
    "crontab",
)


def plant(attempt: str, home: Path, secret: Path, top: Path) -> None:
    """One way in which a user leads root to a file that is not his."""
    keys = home / ".ssh"
    if attempt == "linked folder":
        (home / "authorized_keys").symlink_to(secret)
        keys.symlink_to(home)
        return
    if attempt == "linked home":
        home.rmdir()
        home.symlink_to(secret.parent)
        return
    keys.mkdir()
    match attempt:
        case "authorized_keys" | "authorized_keys2":
            (keys / attempt).symlink_to(secret)
        case "hard link":
            os.link(secret, keys / "authorized_keys")
        case "pipe":
            os.mkfifo(keys / "authorized_keys")
        case "linked twice":
            (keys / "a").symlink_to(secret)
            (keys / "authorized_keys").symlink_to("a")
        case "linked dot file":
            (home / ".bashrc").symlink_to(secret)
            (home / ".profile").symlink_to("/dev/watchdog")
        case _:
            (top / f"var/spool/cron/crontabs/{home.name}").symlink_to(secret)


def people(top: Path, secrets: list[str]) -> Iterator[tuple[str, int]]:
    """An account for each attempt on each file; all of it is its own where the test runs as root."""
    for n, (at, attempt) in enumerate((at, a) for at in secrets for a in ATTEMPTS):
        name, uid = f"mallory{n}", 20_000 + n
        home = top / "home" / name
        home.mkdir(parents=True)
        plant(attempt, home, top / at.lstrip("/"), top)
        if os.geteuid() == 0:
            for path in (home, *([] if home.is_symlink() else home.rglob("*"))):
                # A hard link's owner would be that of root's file.
                if path.is_symlink() or path.is_dir() or path.is_fifo():
                    os.chown(path, uid, uid, follow_symlinks=False)
        yield name, uid


def grow(top: Path, tree: dict[str, Any]) -> None:
    """Files by their path: text, or text and mode."""
    for at, value in tree.items():
        path = top / at.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else value["text"])
        path.chmod(0o644 if isinstance(value, str) else int(value["mode"], 8))


@pytest.fixture
def sung(tmp_path: Path) -> tuple[str, list[str]]:
    """A host with all of them, and the homes of its people."""
    new = Canaries()
    secret = roots(new)
    top = tmp_path / "host"
    grow(top, {**secret, **shown(new)})
    accounts = list(people(top, list(secret)))
    assert new.count + len(accounts) > 200
    passwd = [f"{name}:x:{uid}:{uid}::/home/{name}:/bin/bash" for name, uid in accounts]
    grow(top, {"/etc/passwd": "\n".join(["root:x:0:0::/root:/bin/bash", *passwd]) + "\n"})
    locked = [f"{name}:!:1::::::" for name, _ in accounts]
    (top / "etc/shadow").write_text((top / "etc/shadow").read_text() + "\n".join(locked) + "\n")
    (top / "etc/group").write_text("root:x:0:\n")
    left = [{"kind": "user", "name": name, "keys_sha256": "0" * 64} for name, _ in accounts[::2]]
    receipt = {"version": 1, "stage": "base", "resources": left}
    receipt |= dict.fromkeys(("fingerprint", "written", "run", "appliance"), "x")
    grow(top, {"/var/lib/appliance/receipts/base.json": json.dumps(receipt)})
    return str(top), [f"/home/{name}" for name, _ in accounts]


REQUEST = {
    "deep": True,
    "areas": ["posture", "foreign", "receipts", "resources", "filesystems"],
    "owned": {
        "base": [
            *("/etc/sudoers.d/*", "/etc/cron.d/*", "/etc/apt/sources.list.d/*"),
            *("/etc/ssh/sshd_config.d/*", "/etc/systemd/system/*.service"),
        ]
    },
}


def test_no_secret_of_root_is_in_an_answer_nor_in_anything_told_of_it(
    sung: tuple[str, list[str]], session: Session
) -> None:
    root, homes = sung
    keys = {home: ["SHA256:none"] for home in ["/root", *homes]}
    said = json.dumps(answer(json.dumps({**REQUEST, "keys": keys}).encode(), root))
    assert WORD not in said
    facts = HostFacts.model_validate_json(said)
    assert facts.posture
    assert {"key", "cron file", "setuid file"} <= facts.posture.things.keys()
    assert facts.foreign, facts.errors
    keep_postures(session, Round({"gpu-1": facts}, {}))
    empty = {"things": {kind: {} for kind in facts.posture.things}, "owned": []}
    now = facts.model_copy(update={"posture": facts.posture})
    bare = HostFacts.model_validate({**facts.model_dump(), "posture": empty})
    told = lines(posture_differences(session, Day(), {"gpu-1": bare}))
    view = View(session.profile, session.site, {"gpu-1": now})
    host = session.site.host("gpu-1")
    found = [
        *(one.of(base_ids.FOREIGN) for one in judge_foreign(view, host, now)),
        *(one.of(base_ids.DRIFT) for one in judge_drift(view, host, now)),
    ]
    around = Findings()
    around.results += found
    asked = Round({"gpu-1": now}, {})
    store_facts(session, asked)
    save(session, record_of(session, asked, around))
    text, _ = nagios.render("acme", found)
    printed = [*told, text, *(result.model_dump_json() for result in found)]
    assert len(printed) > 200
    assert WORD not in "\n".join(printed)
    kept = {file.name: file for file in session.runs.rglob("*") if file.is_file()}
    assert {"report.html", "report.json", "journal.sqlite"} <= kept.keys()
    for file in kept.values():
        assert WORD.encode() not in file.read_bytes(), file.name
