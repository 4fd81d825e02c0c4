"""Saving, listing, verifying and restoring a control host."""

import gzip
import json
import os
import resource
import shutil
import tarfile
from pathlib import Path

import pytest

from appliance.backup import archive, command, store
from appliance.backup.trouble import ARCHIVE, DATA, NEW, REFUSED, TARGET, Trouble
from tests.support.backup_world import KEY, World, state

IDENTITY = KEY.encode() + b"\n"


def test_a_backup_is_an_archive_and_its_manifest(world: World) -> None:
    made = world.host().save()
    assert world.files == [f"{made['name']}.age", f"{made['name']}.json"]
    assert made["slurm"] == {
        **{"cluster": "tiny", "jobs": 7, "changed": 1000},
        **{"associations": 4, "release": "22.05.8", "began": 500},
    }
    assert state(world)["problem"] == ""
    (found,) = world.host().listed()["hosts"]["head"]
    assert found == {**made, "authentic": None}


def test_what_the_target_returns_is_compared_before_it_gets_its_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoiling(self: store.Folder, local: Path, name: str) -> None:
        target = world.target / f"{name}.part"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(local.read_bytes()[:-1])

    monkeypatch.setattr(store.Folder, "put", spoiling)
    with pytest.raises(Trouble, match="differs from what was written"):
        world.host().save()
    assert not [name for name in world.files if not name.endswith(".part")]
    assert state(world)["kind"] == ARCHIVE


def test_a_failed_dump_is_noted_and_keeps_the_last_good_backup(world: World) -> None:
    made = world.host().save()
    (world.root / "broken").touch()
    with pytest.raises(Trouble, match="Got error: 2002"):
        world.host().save()
    noted = state(world)
    assert (noted["kind"], noted["name"]) == (DATA, made["name"])


def test_the_target_is_refused_where_nothing_is_mounted(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
    with pytest.raises(Trouble, match="a disk of this host") as refused:
        store.require_elsewhere(tmp_path, mounts)
    assert refused.value.kind == TARGET
    mounts.write_text(mounts.read_text() + f"2 1 0:9 / {tmp_path} rw - nfs4 192.0.2.7:/x rw\n")
    store.require_elsewhere(tmp_path, mounts)
    mounts.write_text(mounts.read_text() + f"3 1 0:9 / {tmp_path} rw - nfs4 127.0.0.1:/x rw\n")
    with pytest.raises(Trouble, match="from this host itself"):
        store.require_elsewhere(tmp_path, mounts)


def test_a_spoiled_archive_is_named(world: World) -> None:
    made = world.host().save()
    archive = world.target / "tiny" / "head" / f"{made['name']}.age"
    content = bytearray(archive.read_bytes())
    content[40] ^= 1
    archive.write_bytes(content)
    with pytest.raises(Trouble, match="differs from what was written"):
        world.host().verify("", "latest", b"")


def test_verify_with_the_key_reads_each_part(world: World) -> None:
    world.host().save()
    found = world.host().verify("", "latest", IDENTITY)
    assert found["decrypted"]
    assert [part["name"] for part in found["parts"]] == ["slurm/database.sql", "slurm/state.tar"]
    with pytest.raises(Trouble, match="no identity matched"):
        world.host().verify("", "latest", b"another\n")


def test_a_manifest_that_is_not_the_archives_is_refused(world: World) -> None:
    made = world.host().save()
    file = world.target / "tiny" / "head" / f"{made['name']}.json"
    file.write_text(json.dumps({**made, "slurm": {**made["slurm"], "jobs": 8}}))
    with pytest.raises(Trouble, match="is not that of its manifest"):
        world.host().restore("", "latest", IDENTITY, force=True)
    assert "systemctl" not in world.said


def test_a_backup_that_its_server_forged_is_not_restored(world: World) -> None:
    (world.root / "backup.key").write_text("private\n")
    genuine = world.host().save()
    assert world.host().verify("", "latest", IDENTITY)["authentic"] is True
    assert world.host().consider("", "latest")["authentic"] is True
    place = world.target / "tiny" / "head" / f"{genuine['name']}.json"
    lies = (
        {"signature": ""},
        {"signature": 7},
        {"signature": "é"},
        {"slurm": {**genuine["slurm"], "jobs": 8}},
        {"sha256": "0" * 64},
    )
    for lie in lies:
        place.write_text(json.dumps({**genuine, **lie}))
        assert world.host().consider("", "latest")["authentic"] is False
    place.write_text(json.dumps({k: v for k, v in genuine.items() if k != "signature"}))
    with pytest.raises(Trouble, match="is not signed by this site"):
        world.host().restore("", "latest", IDENTITY, force=False)
    assert "systemctl" not in world.said
    world.host().restore("", "latest", IDENTITY, force=True)


def test_a_signature_is_of_one_host_and_one_moment(world: World) -> None:
    (world.root / "backup.key").write_text("private\n")
    genuine = world.host().save()
    folder = world.target / "tiny"
    shutil.copytree(folder / "head", folder / "head-2")
    assert world.host().consider("head-2", "latest")["authentic"] is False
    (world.root / "backup.key").write_text("another\n")
    assert world.host().consider("", genuine["name"])["authentic"] is False


def test_without_a_key_nothing_is_said_of_the_author(world: World) -> None:
    made = world.host().save()
    assert "signature" not in made
    assert world.host().verify("", "latest", b"")["authentic"] is None


@pytest.mark.parametrize(
    "lie",
    [
        {"bytes": "1"},
        {"bytes": -1},
        {"bytes": 10**400},
        {"written": 1},
        {"site": None},
        {"sha256": 1},
        {"parts": "x"},
        {"parts": [{"name": "a"}]},
        {"slurm": "x"},
        {"slurm": {"cluster": "tiny", "release": "22.05.8", "jobs": 1, "associations": 1}},
        {"slurm": {"cluster": "tiny", "release": 22, "jobs": 1, "associations": 1, "changed": 1}},
    ],
    ids=str,
)
def test_a_manifest_of_another_shape_is_one_line(world: World, lie: dict[str, object]) -> None:
    made = world.host().save()
    file = world.target / "tiny" / "head" / f"{made['name']}.json"
    file.write_text(json.dumps({**made, **lie}))
    (found,) = world.host().listed()["hosts"]["head"]
    assert found["problem"] == f"the manifest of {made['name']} cannot be read"
    with pytest.raises(Trouble, match="cannot be read"):
        world.host().consider("", made["name"])
    with pytest.raises(Trouble, match="cannot be read"):
        world.host().verify("", made["name"], IDENTITY)
    with pytest.raises(Trouble, match="cannot be read"):
        world.host().restore("", "latest", IDENTITY, force=True)


def test_a_deeply_nested_manifest_is_one_line(world: World) -> None:
    made = world.host().save()
    file = world.target / "tiny" / "head" / f"{made['name']}.json"
    file.write_text("[" * 100_000)
    with pytest.raises(Trouble, match="cannot be read"):
        world.host().consider("", "latest")


def test_an_older_backup_under_a_newer_name_is_refused(world: World) -> None:
    made = world.host().save()
    at = world.target / "tiny" / "head"
    name = "20991231T235959Z"
    (at / f"{name}.age").write_bytes((at / f"{made['name']}.age").read_bytes())
    (at / f"{name}.json").write_text(json.dumps({**made, "name": name}))
    with pytest.raises(Trouble, match=f"the manifest of {name} cannot be read"):
        world.host().restore("", "latest", IDENTITY, force=True)


def test_a_backup_that_unpacks_to_more_than_there_is_room_for_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.root / "state" / "job_state").write_bytes(bytes(8 << 20))
    world.host().save()
    monkeypatch.setattr(
        "appliance.backup.command.RESERVE", shutil.disk_usage(world.root).free - (4 << 20)
    )
    with pytest.raises(Trouble, match=r"slurm/state\.tar needs"):
        world.host().restore("", "latest", IDENTITY, force=True)
    assert "systemctl" not in world.said


def test_restore_puts_database_and_state_back(world: World) -> None:
    world.host().save()
    (world.root / "state" / "job_state").write_text("lost")
    found = world.host().restore("", "latest", IDENTITY, force=False)
    assert (world.root / "loaded").read_text() == "-- a dump\n"
    assert (world.root / "state" / "job_state").read_text() == "jobs"
    database, old = found["kept"]
    assert (Path(old) / "job_state").read_text() == "lost"
    assert database.endswith(".sql.gz")
    order = [line.split()[1] for line in world.said.splitlines() if line.startswith("systemctl")]
    assert order == ["stop", "start", "reset-failed", "start", "start"]
    assert "open-sesame" not in world.said


def test_restore_refuses_what_would_be_lost(world: World) -> None:
    world.host().save()
    world.note("lost", "3")
    assert world.host().consider("", "latest")["lost"] == 3
    with pytest.raises(Trouble, match="3 jobs here changed after the backup") as refused:
        world.host().restore("", "latest", IDENTITY, force=False)
    assert refused.value.kind == REFUSED
    assert "systemctl" not in world.said
    world.host().restore("", "latest", IDENTITY, force=True)
    assert "systemctl" in world.said


def test_restore_refuses_another_cluster(world: World) -> None:
    world.host().save()
    world.settings["slurm"]["cluster"] = "other"  # type: ignore[index]
    with pytest.raises(Trouble, match=r"of cluster tiny, but slurm\.cluster is other"):
        world.host().restore("", "latest", IDENTITY, force=True)
    assert "systemctl" not in world.said


def test_restore_refuses_an_older_slurm(world: World) -> None:
    world.host().save()
    (world.root / "bin" / "sinfo").write_text("#!/bin/sh\necho slurm 21.08.5\n")
    with pytest.raises(Trouble, match=r"Slurm 21.08.5 cannot read the data of Slurm 22.05.8"):
        world.host().restore("", "latest", IDENTITY, force=True)


def test_restore_refuses_a_host_without_slurm(world: World) -> None:
    world.host().save()
    world.settings["slurm"] = None
    with pytest.raises(Trouble, match="this host has no Slurm"):
        world.host().restore("", "latest", IDENTITY, force=True)


def test_no_backup_is_no_backup(world: World) -> None:
    with pytest.raises(Trouble, match="has no backup of tiny/head"):
        world.host().consider("", "latest")
    with pytest.raises(Trouble, match="is not the name of a backup"):
        world.host().consider("", "../../etc")


def test_the_newest_backup_of_etcd_is_in_it(world: World) -> None:
    etcd = world.root / "etcd"
    etcd.mkdir()
    for name in ("20260101T000000Z", "20260102T000000Z"):
        (etcd / f"{name}.snapshot").write_text(name)
    made = world.host().save()
    assert made["parts"][-1]["name"] == "etcd/20260102T000000Z.snapshot"
    for file in etcd.iterdir():
        file.unlink()
    assert world.host().restore("", "latest", IDENTITY, force=False)["etcd"] == ["20260102T000000Z"]
    assert (etcd / "20260102T000000Z.snapshot").read_text() == "20260102T000000Z"


def test_old_backups_go_after_a_good_one_only(world: World) -> None:
    folder = world.target / "tiny" / "head"
    folder.mkdir(parents=True)
    for ending in (".age", ".json"):
        (folder / f"20200101T000000Z{ending}").write_text("{}")
    (world.root / "broken").touch()
    with pytest.raises(Trouble):
        world.host().save()
    assert "20200101T000000Z.age" in world.files
    (world.root / "broken").unlink()
    made = world.host().save()
    assert world.files == [f"{made['name']}.age", f"{made['name']}.json"]


def test_no_plain_copy_is_left(world: World) -> None:
    world.host().save()
    left = [path.name for path in (world.root / "home").rglob("*") if path.is_file()]
    assert left == ["state.json"]


def test_the_accounting_of_a_rebuilt_host_never_becomes_the_newest_backup(world: World) -> None:
    made = world.host().save()
    world.note("began", "900")
    with pytest.raises(Trouble, match=f"backup {made['name']} has that since"):
        world.host().save()
    assert state(world)["kind"] == NEW
    assert world.files == [f"{made['name']}.age", f"{made['name']}.json"]
    world.note("began", "500")
    world.host().save()
    assert state(world)["kind"] == ""


def test_accounting_can_start_over(world: World) -> None:
    world.host().save()
    world.note("began", "900")
    assert world.host().save(force=True)["slurm"]["began"] == 900


def test_what_the_caller_writes_keeps_its_rights(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """A umask is that of the whole process, tests included."""
    settings = world.root / "settings.json"
    settings.write_text(json.dumps(world.settings))
    before = os.umask(0o022)
    try:
        assert command.main(["list", "--file", str(settings)]) == 0
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE]
)
def test_a_header_without_an_end_takes_no_memory(world: World, tmp_path: Path, kind: bytes) -> None:
    """Who can write to the target packs 512 MiB into 2 MiB, in the name of an entry."""
    info = tarfile.TarInfo("name")
    info.type, info.size = kind, 512 << 20
    forged = tmp_path / "forged.age"
    with gzip.open(forged, "wb", compresslevel=1) as sink:
        sink.write(info.tobuf(tarfile.GNU_FORMAT))
        for _ in range(512):
            sink.write(b"a" * (1 << 20))
    forged.write_bytes(b"for " + IDENTITY + forged.read_bytes())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Trouble, match="a header of"):
        archive.unpack(forged, IDENTITY, tmp_path, 1 << 30)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 << 10
