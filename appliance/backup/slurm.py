"""Slurm's accounting database and the state of its controller: saved, counted, restored.

Whatever reads or writes the controller's folder, or runs SQL from a backup, runs as Slurm's own user.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.backup.programs import LONG_S, run
from appliance.backup.trouble import DATA, Trouble

if TYPE_CHECKING:
    from typing import Any

DATABASE, STATE = "slurm/database.sql", "slurm/state.tar"
PASSWORD = re.compile(r"^StoragePass=(\S+)", re.MULTILINE)
CONF = Path("/etc/slurm/slurmdbd.conf")
SAVED = Path("/var/backups/appliance/slurm")
"""Where the data that a restore replaces is kept."""
ROOT = ("--user=root", "--protocol=socket")
READY_S = 90.0


class Slurm:
    """``settings``: cluster, database, state (its folder), user."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.cluster, self.database = settings["cluster"], settings["database"]
        self.state, self.user = Path(settings["state"]), settings["user"]

    def save(self, folder: Path) -> dict[str, Any]:
        """Writes both parts below the folder; returns what is in them. Raises Trouble.

        The state first: a job that it lacks and the database has can be found, the reverse confuses the controller.
        """
        (folder / "slurm").mkdir()
        with (folder / STATE).open("wb") as sink:
            words = ("tar", "-C", str(self.state), "-cf", "-", "--warning=no-file-changed", ".")
            run(self._as_user(*words), DATA, sink=sink)
        self._dump(folder / DATABASE)
        return self.look()

    def _dump(self, file: Path) -> None:
        # Without --no-create-db or --databases: it may be loaded under any name.
        words = ("mariadb-dump", *ROOT, "--single-transaction", "--quick", self.database)
        with file.open("wb") as sink:
            run(words, DATA, sink=sink)

    def look(self) -> dict[str, Any]:
        """Jobs, the last change of one and when the accounting began (seconds since 1970), associations, Slurm's release. Raises Trouble."""
        jobs, changed = self._row("COUNT(*), COALESCE(MAX(mod_time), 0)", "job")
        (associations,) = self._row("COUNT(*)", "assoc", " WHERE deleted = 0")
        # A new database is as old as its first registration of the cluster.
        whose = f"SELECT creation_time FROM cluster_table WHERE name = '{self.cluster}'"
        began = int(self._query(whose).strip() or 0)
        return {
            "began": began,
            **{"cluster": self.cluster, "jobs": jobs, "changed": changed},
            **{"associations": associations, "release": release()},
        }

    def jobs_changed_after(self, moment: int) -> int:
        """Jobs of this host's database that changed later."""
        return self._row("COUNT(*)", "job", f" WHERE mod_time > {moment:d}")[0]

    def _row(self, columns: str, table: str, rest: str = "") -> list[int]:
        name = f"{self.cluster}_{table}_table"
        known = self._query(f"SHOW TABLES LIKE '{name}'")
        if not known.strip():
            return [0] * (columns.count(",") - columns.count(", 0") + 1)
        return [int(word) for word in self._query(f"SELECT {columns} FROM `{name}`{rest}").split()]

    def _query(self, query: str) -> str:
        words = ("mariadb", *ROOT, "--batch", "--skip-column-names", "--execute", query)
        return run((*words, self.database), DATA, seconds=60)

    def _as_user(self, *words: str) -> tuple[str, ...]:
        return ("setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups", *words)

    def restore(self, folder: Path, saved: dict[str, Any]) -> list[str]:
        """Loads both parts, and starts Slurm; returns where the replaced data is. Raises Trouble."""
        run(("systemctl", "stop", "slurmctld.service", "slurmdbd.service"), DATA, seconds=180)
        run(("systemctl", "start", "mariadb.service"), DATA, seconds=180)
        name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        kept = [self._keep_database(name)]
        self._load(folder / DATABASE)
        found = self._row("COUNT(*)", "job")[0]
        if found != saved["jobs"]:
            raise Trouble(DATA, f"the loaded database has {found} jobs, the backup {saved['jobs']}")
        kept += self._swap_state(folder / STATE, name)
        run(
            ("systemctl", "reset-failed", "slurmdbd.service", "slurmctld.service"), DATA, seconds=60
        )
        run(("systemctl", "start", "slurmdbd.service"), DATA, seconds=180)
        _until(("sacctmgr", "--noheader", "--parsable2", "list", "cluster"), self.cluster)
        run(("systemctl", "start", "slurmctld.service"), DATA, seconds=180)
        _until(("scontrol", "ping"), "is UP")
        return kept

    def _keep_database(self, name: str) -> str:
        SAVED.mkdir(mode=0o700, parents=True, exist_ok=True)
        raw = SAVED / f".{name}.sql"
        kept = SAVED / f"{self.database}-before-restore-{name}.sql.gz"
        descriptor = os.open(raw, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        os.close(descriptor)
        self._dump(raw)
        with raw.open("rb") as source, gzip.open(kept, "wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        kept.chmod(0o600)
        raw.unlink()
        return str(kept)

    def _load(self, file: Path) -> None:
        found = PASSWORD.search(CONF.read_text(encoding="utf-8"))
        if found is None:
            raise Trouble(DATA, f"{CONF} has no StoragePass")
        client = self._as_user("mariadb", f"--user={self.user}", "--protocol=socket", "--batch")
        secret = {"MYSQL_PWD": found[1]}
        fresh = f"DROP DATABASE IF EXISTS {self.database}; CREATE DATABASE {self.database};"
        run((*client, "--execute", fresh), DATA, extra=secret, seconds=300)
        with file.open("rb") as source:
            run((*client, self.database), DATA, source=source, extra=secret, seconds=LONG_S)

    def _swap_state(self, file: Path, name: str) -> list[str]:
        """All as Slurm's user, who owns the folder above: root would follow the links of others."""
        fresh, old = f"{self.state}.restored-{name}", f"{self.state}.before-restore-{name}"
        run(self._as_user("mkdir", "--mode=0700", fresh), DATA)
        with file.open("rb") as source:
            run(self._as_user("tar", "-C", fresh, "-xf", "-"), DATA, source=source)
        run(self._as_user("chmod", "0700", fresh), DATA)
        there = os.path.lexists(self.state)
        if there:
            run(self._as_user("mv", "-T", str(self.state), old), DATA)
        run(self._as_user("mv", "-T", fresh, str(self.state)), DATA)
        return [old] if there else []


def release() -> str:
    """Slurm's release, such as 22.05.8."""
    found = re.search(r"\d+\.\d+\.\d+", run(("sinfo", "--version"), DATA, seconds=30))
    return found[0] if found else ""


def is_older(release: str, than: str) -> bool:
    """Whether a release is older; daemons read data of earlier releases only."""
    here, there = ([int(part) for part in re.findall(r"\d+", one)[:2]] for one in (release, than))
    return here < there


def _until(words: tuple[str, ...], wanted: str) -> None:
    end = time.monotonic() + READY_S
    while True:
        try:
            said = run(words, DATA, seconds=30)
            if wanted in said:
                return
            why = Trouble(DATA, f"{words[0]} does not show {wanted}")
        except Trouble as error:
            why = error
        if time.monotonic() > end:
            raise why
        time.sleep(1)
