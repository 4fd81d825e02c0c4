"""appliance backup, with the host's own program on a made-up host."""

import contextlib
import io
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from appliance.actions.sites import backups as action
from appliance.adapters.process import Completed
from appliance.backup import command, store
from appliance.cli.main import cli
from appliance.config.load import load_site
from appliance.engine.session import Session
from tests.support.backup_world import KEY, World
from tests.support.engine_session import hosts, recorder, session
from tests.unit.backup.conftest import world

__all__ = ["hosts", "recorder", "session", "world"]

SITE = """\
version: 2
name: tiny
profile: hpc
networks: {management: {cidr: 10.1.0.0/24}}
hosts:
  - {name: head, roles: [control, login], address: 10.1.0.1}
  - {name: gpu-1, roles: [gpu], address: 10.1.0.11}
slurm: {cluster: tiny}
secrets: {munge_key: {env: A}, slurmdbd_password: {env: A}}
"""


class Bench:
    """The site's head runs the program on the world's files. ``is_up``: whether it answers."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self._patch, self.asked = world, monkeypatch, list[Sequence[str]]()
        self.file = world.root / "site.yml"
        self.missing = False

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        assert (host, argv[0]) == ("head", action.PROGRAM)
        self.asked.append(argv)
        if self.missing:
            return Completed(tuple(argv), 127, "", "sh: 1: appliance-backup: not found")
        settings = self.world.root / "backup.json"
        settings.write_text(json.dumps(self.world.settings))
        said, wrong = io.StringIO(), io.StringIO()
        given = io.TextIOWrapper(io.BytesIO(input or b""))
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
            self._patch.setattr(sys, "stdin", given)
            code = command.main([*argv[1:], "--file", str(settings)])
        return Completed(tuple(argv), code, said.getvalue(), wrong.getvalue())

    def cli(self, *argv: str) -> Result:
        words = ["backup", argv[0], "--site", str(self.file), *argv[1:]]
        return CliRunner().invoke(cli, words, standalone_mode=False)


@pytest.fixture
def bench(world: World, session: Session, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(world, monkeypatch)
    monkeypatch.setenv("A", "x" * 40)
    section = {"target": "/mnt/backup", "recipient": "age1" + 58 * "q"}
    made.file.write_text(SITE + f"backup: {json.dumps(section)}\n")
    (world.root / "known_hosts").write_text("")
    (world.root / "age.key").write_text(f"{KEY}\n")
    monkeypatch.setattr(action, "IDENTITY", KEY.encode())
    monkeypatch.setattr(store, "opened", lambda *_: store.Folder(str(world.target)))
    object.__setattr__(session, "remote", made)

    @contextlib.contextmanager
    def opened(*_: object, **__: object) -> Iterator[Session]:
        object.__setattr__(session, "site", load_site(made.file).site)
        yield session

    @contextlib.contextmanager
    def free(*_: object, **__: object) -> Iterator[None]:
        yield

    monkeypatch.setattr(action, "open_session", opened)
    monkeypatch.setattr(action, "leased", free)
    return made


def key(bench: Bench) -> tuple[str, str]:
    return "--identity", str(bench.world.root / "age.key")


def test_a_backup_of_host_and_site_is_written_and_listed(bench: Bench) -> None:
    assert bench.cli("create").return_value == 0
    found = bench.cli("list", "--json")
    assert found.return_value == 0
    hosts: dict[str, Any] = json.loads(found.output)["hosts"]
    (saved,) = hosts["head"]["backups"]
    assert saved["slurm"]["jobs"] == 7
    (site,) = hosts["_control"]["backups"]
    assert site["parts"] == ["site.tar"]
    shown = bench.cli("list").output
    assert "7 jobs and 4 associations of tiny" in shown
    assert "the site's folder" in shown


def test_a_host_without_the_program_is_named(bench: Bench) -> None:
    bench.missing = True
    found = bench.cli("list")
    assert found.return_value == 1
    assert "--stage backup" in found.output


def test_restore_shows_what_it_does_and_ends_with_the_next_step(bench: Bench) -> None:
    bench.cli("create")
    found = bench.cli("restore", "latest", *key(bench), "--yes")
    assert found.return_value == 0, found
    assert "7 jobs and 4 associations of tiny" in found.output
    assert "next: appliance deploy" in found.output
    assert KEY not in " ".join(word for argv in bench.asked for word in argv)
    assert KEY not in found.output


def test_restore_of_an_older_backup_needs_force(bench: Bench) -> None:
    bench.cli("create")
    bench.world.note("lost", "3")
    refused = bench.cli("restore", "latest", *key(bench), "--yes")
    assert "3 jobs on head changed after that backup" in str(refused.exception)
    assert "systemctl" not in bench.world.said
    assert bench.cli("restore", "latest", *key(bench), "--yes", "--force").return_value == 0


def test_a_backup_that_this_site_did_not_sign_needs_force(bench: Bench) -> None:
    bench.cli("create")
    (bench.world.root / "backup.key").write_text("private\n")
    assert "of tiny; not signed by this site" in bench.cli("list").output
    found = bench.cli("verify")
    assert found.return_value == 1
    assert "is not signed with backup_ssh_key of this site" in found.output
    assert "add --force" in found.output
    document = bench.cli("verify", "--json")
    assert document.return_value == 1
    assert json.loads(document.output)["authentic"] is False
    refused = bench.cli("restore", "latest", *key(bench), "--yes")
    assert "its server may have forged it" in str(refused.exception)
    assert "systemctl" not in bench.world.said
    assert bench.cli("restore", "latest", *key(bench), "--yes", "--force").return_value == 0


def test_a_signed_backup_is_restored_and_said_to_be(bench: Bench) -> None:
    (bench.world.root / "backup.key").write_text("private\n")
    bench.cli("create")
    assert "; signed by this site" in bench.cli("verify").output
    assert bench.cli("restore", "latest", *key(bench), "--yes").return_value == 0


def test_restore_of_another_cluster_is_refused(bench: Bench) -> None:
    bench.cli("create")
    bench.world.settings["slurm"]["cluster"] = "other"  # type: ignore[index]
    refused = bench.cli("restore", "latest", *key(bench), "--yes", "--force")
    assert "the backup is of cluster tiny" in str(refused.exception)


def test_verify_reads_the_archive_with_the_key(bench: Bench) -> None:
    bench.cli("create")
    assert "the target returns what was written" in bench.cli("verify").output
    assert "each file in it has its digest" in bench.cli("verify", "latest", *key(bench)).output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("verify", "latest", "--host", "gpu-1"), "gpu-1 is not a control host"),
        (("verify", "latest", "--identity", "site.yml"), "has no private key of age"),
        (("verify", "latest", "--identity", "none.key"), "cannot be read"),
    ],
)
def test_unusable_input_is_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(bench.world.root)
    refused = bench.cli(*words)
    assert told in str(refused.exception)
    assert getattr(refused.exception, "exit_code", 0) == 2


def test_a_site_without_the_section_is_refused(bench: Bench) -> None:
    bench.file.write_text(SITE)
    refused = bench.cli("create")
    assert "tiny has no section backup" in str(refused.exception)


def test_the_sites_secrets_are_in_its_backup_and_the_journal_is_a_copy(
    bench: Bench, tmp_path: Path
) -> None:
    (bench.world.root / "secrets").mkdir()
    (bench.world.root / "secrets" / "munge_key").write_text("m")
    assert bench.cli("create").return_value == 0
    (file,) = (bench.world.target / "tiny" / "_control").glob("*.age")
    assert file.stat().st_mode & 0o777 == 0o600
