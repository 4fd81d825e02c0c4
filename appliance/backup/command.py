"""The command line of the program on a control host."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.backup import archive, slurm, store
from appliance.backup.backups import CONTROL_MACHINE, NEWEST, Backups
from appliance.backup.slurm import Slurm
from appliance.backup.trouble import ARCHIVE, DATA, NEW, REFUSED, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

SETTINGS = "/etc/appliance/backup.json"
KEY, KNOWN_HOSTS = "/etc/appliance/backup.key", "/etc/appliance/backup.known_hosts"
HOME = Path("/var/lib/appliance/backup")
STATE = HOME / "state.json"
ETCD = "etcd/"
SNAPSHOT = ".snapshot"
WORK, STALE_S = "work-", 3600.0
"""Prefix of private folders, and the age in seconds at which one is of a killed run."""
RESERVE = 1 << 30
"""Bytes of this host's disk that stay free, whatever a backup unpacks to."""
ROOM = 3
"""Multiple of the archive's size that a restore needs on this host's disk."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it: 0 success, 1 failed."""
    parser = argparse.ArgumentParser(
        "appliance-backup",
        description="Saves this host's data to the site's target, and restores it. Prints JSON.",
    )
    parser.add_argument("verb", choices=("save", "list", "verify", "consider", "restore"))
    parser.add_argument("name", nargs="?", default=NEWEST)
    parser.add_argument("--of", default="", help="the host that was saved (default: this host)")
    parser.add_argument(
        "--identity", action="store_true", help="the private key is on standard input"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="restore although newer data is lost, or the backup is not signed; save although the accounting is new",
    )
    parser.add_argument("--file", default=SETTINGS, help="settings (default: %(default)s)")
    asked = parser.parse_args(arguments)
    before = os.umask(0o077)
    try:
        host = Host(json.loads(Path(asked.file).read_text(encoding="utf-8")))
        answer = _answer(host, asked)
        sys.stdout.write(json.dumps(answer) + "\n")
    except Trouble as error:
        sys.stdout.write(json.dumps({"problem": str(error), "kind": error.kind}) + "\n")
        sys.stderr.write(f"appliance-backup: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"appliance-backup: {error}\n")
        return 1
    finally:
        os.umask(before)
    return 0


def _answer(host: Host, asked: argparse.Namespace) -> dict[str, Any]:
    if asked.verb == "save":
        with _alone():
            return host.save(asked.force)
    if asked.verb == "list":
        return host.listed()
    identity = sys.stdin.buffer.read(1 << 16) if asked.identity else b""
    if asked.verb == "verify":
        return host.verify(asked.of, asked.name, identity)
    if asked.verb == "consider":
        return host.consider(asked.of, asked.name)
    with _alone():
        return host.restore(asked.of, asked.name, identity, asked.force)


class Host:
    """This control host. ``settings``: see role backup."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        given = settings["slurm"]
        self._slurm = Slurm(given) if given else None

    def save(self, force: bool = False) -> dict[str, Any]:
        """Writes a backup, and notes how it went. ``force``: although it is of another database than the last. Raises Trouble."""
        before = _state()
        try:
            made = self._saved(force)
        except Trouble as error:
            _note({**before, "tried": time.time(), "problem": str(error), "kind": error.kind})
            raise
        except OSError as error:
            _note({**before, "tried": time.time(), "problem": str(error), "kind": DATA})
            raise
        _note(
            {
                **{"tried": time.time(), "problem": "", "kind": ""},
                **{key: made[key] for key in ("name", "written", "bytes")},
            }
        )
        return made

    def _saved(self, force: bool) -> dict[str, Any]:
        with _workplace() as work:
            target = self._backups(work)
            parts = work / "parts"
            parts.mkdir()
            manifest: dict[str, Any] = {
                **{"version": archive.VERSION, "site": self._settings["site"]},
                **{"host": self._settings["host"], "written": int(time.time())},
            }
            names: list[str] = []
            if self._slurm:
                manifest["slurm"] = self._slurm.save(parts)
                if not force:
                    _require_successor(target, manifest["slurm"])
                names += [slurm.DATABASE, slurm.STATE]
            names += self._newest_of_etcd(parts)
            manifest["parts"] = archive.described(parts, names)
            packed = work / "packed"
            archive.pack(parts, manifest, self._settings["recipient"], packed)
            return target.write(packed, manifest, self._settings["keep_days"])

    def _newest_of_etcd(self, parts: Path) -> list[str]:
        folder = self._settings["etcd"]
        found = sorted(Path(folder).glob(f"*{SNAPSHOT}")) if folder else []
        if not found:
            return []
        name = f"{ETCD}{found[-1].name}"
        (parts / "etcd").mkdir()
        shutil.copyfile(found[-1], parts / name)
        return [name]

    def _backups(self, work: Path, of: str = "") -> Backups:
        target = store.opened(self._settings["target"], KEY, KNOWN_HOSTS)
        key = Path(KEY).read_bytes() if Path(KEY).exists() else b""
        return Backups(target, self._settings["site"], of or self._settings["host"], work, key)

    def listed(self) -> dict[str, Any]:
        """Backups of this host and of the control machine. Raises Trouble."""
        with _workplace() as work:
            hosts = (self._settings["host"], CONTROL_MACHINE)
            found = {of: self._backups(work, of).listed() for of in hosts}
        return {"target": self._settings["target"], "now": time.time(), "hosts": found}

    def verify(self, of: str, name: str, identity: bytes) -> dict[str, Any]:
        """Reads a backup from the target. With the private key also each part in it. Raises Trouble."""
        with _workplace() as work:
            manifest, _ = self._fetched(work, of, name, identity)
            authentic = self._backups(work, of).is_authentic(manifest)
        return {
            **{"name": manifest["name"], "parts": manifest["parts"]},
            **{"decrypted": bool(identity), "authentic": authentic},
        }

    def _fetched(
        self, work: Path, of: str, name: str, identity: bytes
    ) -> tuple[dict[str, Any], Path]:
        target = self._backups(work, of)
        manifest = target.manifest(name)
        packed, parts = work / "packed", work / "parts"
        if shutil.disk_usage(work).free < ROOM * manifest["bytes"]:
            raise Trouble(REFUSED, f"{HOME} has too little free space for {name}")
        target.read(manifest, packed)
        if identity:
            parts.mkdir()
            room = shutil.disk_usage(work).free - RESERVE
            inner = archive.unpack(packed, identity, parts, room)
            if any(manifest.get(key) != value for key, value in inner.items()):
                raise Trouble(
                    ARCHIVE, f"the archive {manifest['name']} is not that of its manifest"
                )
        return manifest, parts

    def consider(self, of: str, name: str) -> dict[str, Any]:
        """What a restore would do, and what is against it. ``lost``: jobs here that changed after the backup. Raises Trouble."""
        with _workplace() as work:
            target = self._backups(work, of)
            manifest = target.manifest(name)
            authentic = target.is_authentic(manifest)
        self._require_same(manifest)
        saved = manifest.get("slurm")
        lost = self._slurm.jobs_changed_after(saved["changed"]) if self._slurm and saved else 0
        return {"manifest": manifest, "lost": lost, "now": time.time(), "authentic": authentic}

    def _require_same(self, manifest: dict[str, Any]) -> None:
        if manifest["site"] != self._settings["site"]:
            raise Trouble(REFUSED, f"the backup is of site {manifest['site']}")
        saved = manifest.get("slurm")
        if not saved:
            return
        if self._slurm is None:
            raise Trouble(REFUSED, "the backup has Slurm's data, and this host has no Slurm")
        if saved["cluster"] != self._slurm.cluster:
            raise Trouble(
                REFUSED,
                f"the backup is of cluster {saved['cluster']}, but slurm.cluster is {self._slurm.cluster}",
            )
        if slurm.is_older(here := slurm.release(), saved["release"]):
            raise Trouble(REFUSED, f"Slurm {here} cannot read the data of Slurm {saved['release']}")

    def restore(self, of: str, name: str, identity: bytes, force: bool) -> dict[str, Any]:
        """Puts a backup's data in place of this host's. Raises Trouble, before any change if the backup is unusable."""
        considered = self.consider(of, name)
        if considered["lost"] and not force:
            raise Trouble(
                REFUSED,
                f"{considered['lost']} jobs here changed after the backup and would be lost",
            )
        with _workplace() as work:
            manifest, parts = self._fetched(work, of, considered["manifest"]["name"], identity)
            self._require_same(manifest)
            # Judged again: its server may send another manifest each time.
            if self._backups(work, of).is_authentic(manifest) is False and not force:
                raise Trouble(REFUSED, f"backup {manifest['name']} is not signed by this site")
            kept: list[str] = []
            snapshots = self._place_etcd(manifest, parts)
            if self._slurm and manifest.get("slurm"):
                kept = self._slurm.restore(parts, manifest["slurm"])
        found = self._slurm.look() if self._slurm else {}
        return {"manifest": manifest, "kept": kept, "etcd": snapshots, "slurm": found}

    def _place_etcd(self, manifest: dict[str, Any], parts: Path) -> list[str]:
        """A backup of etcd goes where appliance etcd restore finds it."""
        folder = self._settings["etcd"]
        names = [p["name"] for p in manifest["parts"] if p["name"].startswith(ETCD)]
        if not folder or not names:
            return []
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in names:
            target = Path(folder) / name[len(ETCD) :]
            shutil.copyfile(parts / name, f"{target}.new")
            target.with_name(target.name + ".new").replace(target)
        return [name[len(ETCD) : -len(SNAPSHOT)] for name in names]


def _require_successor(target: Backups, saved: dict[str, Any]) -> None:
    """Raises Trouble if the newest backup is of another database: that of a disk that was lost, and is not restored yet."""
    try:
        last = target.newest()
    except Trouble as error:
        if error.kind != ARCHIVE:
            raise
        # A manifest that cannot be read must not prevent the next backup.
        return
    began = last.get("slurm", {}).get("began") if last else None
    if last and began and began != saved["began"]:
        days = [time.strftime("%Y-%m-%d %H:%M", time.gmtime(t)) for t in (began, saved["began"])]
        raise Trouble(
            NEW,
            f"the accounting on this host is new ({days[1]}), backup {last['name']} has that since {days[0]}",
        )


@contextmanager
def _workplace() -> Iterator[Path]:
    HOME.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=WORK, dir=HOME) as folder:
        yield Path(folder)


@contextmanager
def _alone() -> Iterator[None]:
    """One at a time; others wait. What a killed run has left goes: it may be plain."""
    HOME.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (HOME / "lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in HOME.glob(f"{WORK}*"):
            if time.time() - left.stat().st_mtime > STALE_S:
                shutil.rmtree(left, ignore_errors=True)
        yield


def _state() -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(STATE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _note(state: dict[str, Any]) -> None:
    fresh = STATE.with_name("state.new")
    fresh.write_text(json.dumps(state), encoding="utf-8")
    fresh.replace(STATE)
