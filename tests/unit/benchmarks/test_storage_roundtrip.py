"""The storage round trip against hosts that share files, forget them, refuse them or do not answer."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from appliance.adapters import process
from appliance.adapters.process import Completed
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.storage_roundtrip import SPEED_BYTES, run
from appliance.benchmarks.storage_route import Route, StoragePath
from appliance.checks.check import View
from appliance.errors import ConnectionFailed, DeadlineExceeded
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Measurement, Status
from appliance.models.site import Site
from tests.support.sites import site_of

MOUNTS = [{"export": "/srv/data", "at": "/data"}]
SITE = site_of(
    *("nas1", "gpu-1", "gpu-2"), storage={"exports": [{"path": "/srv/data"}], "mounts": MOUNTS}
)
EXTERNAL = SITE.model_copy(
    update={
        "storage": SITE.storage.model_validate(
            {
                "external": [{"server": "nas9", "path": "/srv/data"}],
                "mounts": [{"export": "/srv/data", "at": "/data"}],
            }
        )
    }
)
MOUNTED = SimpleNamespace(at="/data", source="10.0.0.10:/srv/data")


def facts(container: str = "", client: str = "kernel", mounts: Sequence[Any] = (MOUNTED,)) -> Any:
    """As much of a host's facts as routes look at."""
    system = SimpleNamespace(container=container)
    return SimpleNamespace(os=system, nfs_client=client, filesystems=mounts)


def view(site: Site = SITE, **hosts: Any) -> View:
    """A site whose hosts have mounted the export, some of them otherwise."""
    known = {"nas1": facts(), "gpu-1": facts(), "gpu-2": facts()}
    known |= {name.replace("_", "-"): value for name, value in hosts.items()}
    seen = {name: cast(HostFacts, value) for name, value in known.items() if value is not None}
    return View(cast(Any, None), site, seen)


class Hosts:
    """Hosts with one directory between them; ``broken`` says by host and step what happens instead."""

    def __init__(self, **broken: Any) -> None:
        self.broken = {name.replace("_", "-"): value for name, value in broken.items()}
        self.files: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        step, arguments = argv[3], argv[4:]
        self.asked.append((host, step))
        planned = self.broken.get(f"{host}.{step}")
        if isinstance(planned, Exception):
            raise planned
        if isinstance(planned, Completed):
            return planned
        return Completed(tuple(argv), 0, getattr(self, step)(*arguments), "")

    def write(self, file: str, size: str) -> str:
        name = file.rpartition("/")[2]
        self.files[name] = hashlib.sha256(f"{name} {size}".encode()).hexdigest()
        return f"500000000 {self.files[name]}  -\n"

    def read(self, *files: str) -> str:
        return "".join(f"{f} {self.files.get(f.rpartition('/')[2], 'none')}  -\n" for f in files)

    def time(self, file: str) -> str:
        return "250000000\n"

    def remove(self, folder: str, token: str) -> str:
        self.files = {n: d for n, d in self.files.items() if not n.startswith(f"{token}-")}
        return ""


def ended(code: int, out: str = "", err: str = "") -> Completed:
    """A program's end."""
    return Completed(("sh",), code, out, err)


def rounds(hosts: Hosts, seen: View) -> tuple[dict[str, CheckResult], list[Measurement]]:
    """Results by target, and measurements."""
    done = run(seen, hosts)
    return {result.target: result for result in done.results}, list(done.measurements)


def test_a_file_of_every_host_is_read_on_all() -> None:
    hosts = Hosts()
    results, _ = rounds(hosts, view())
    assert list(results) == ["nas1/data", "gpu-1/data", "gpu-2/data"]
    assert {(r.status, r.value, r.limit) for r in results.values()} == {(Status.PASS, 3, 3)}
    assert hosts.files == {}


def test_speed_is_measured_over_the_network_only_and_one_host_at_a_time() -> None:
    hosts = Hosts()
    _, measured = rounds(hosts, view())
    assert [(m.name, m.target, m.value) for m in measured] == [
        ("storage.write", "gpu-1/data", round(SPEED_BYTES / 1e6 / 0.5, 1)),
        ("storage.read", "gpu-1/data", round(SPEED_BYTES / 1e6 / 0.25, 1)),
        ("storage.write", "gpu-2/data", round(SPEED_BYTES / 1e6 / 0.5, 1)),
        ("storage.read", "gpu-2/data", round(SPEED_BYTES / 1e6 / 0.25, 1)),
    ]
    assert not any(m.simulated for m in measured)


def test_a_container_goes_through_libnfs_and_its_speed_is_marked() -> None:
    rack = facts("systemd-nspawn", "libnfs", ())
    results, measured = rounds(Hosts(), view(nas1=rack, gpu_1=rack, gpu_2=rack))
    assert results["gpu-1/data"].status is Status.PASS
    assert results["gpu-1/data"].evidence == "libnfs through nfs://10.0.0.10/srv/data"
    assert all(m.simulated and m.detail["client"] == "libnfs" for m in measured)


def test_a_reader_that_sees_an_older_file_fails_and_names_its_writer() -> None:
    class Stale(Hosts):
        def read(self, *files: str) -> str:
            said = super().read(*files)
            return said.replace(self.files[files[0].rpartition("/")[2]], "0" * 64)

    results, _ = rounds(Stale(), view())
    assert results["gpu-2/data"].status is Status.FAIL
    assert results["gpu-2/data"].cause.endswith("in files of gpu-1")


def test_a_reader_without_an_answer_fails() -> None:
    hosts = Hosts(**{"gpu_2.read": ended(0, "", "open call failed with NFS3ERR_ACCES")})
    results, _ = rounds(hosts, view())
    assert results["gpu-2/data"].status is Status.FAIL
    assert "NFS3ERR_ACCES" in results["gpu-2/data"].cause
    assert results["gpu-1/data"].status is Status.PASS


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (ended(1, "", "Read-only file system\nsecond line"), "Read-only file system"),
        (ended(3), "exit 3"),
        (DeadlineExceeded("sh did not end within 60 s"), "did not end within 60 s"),
        (ended(0, "welcome\n"), "cannot be read: 'welcome'"),
        (ended(0, "123\n"), "cannot be read: '123'"),
        (ended(0, ""), "cannot be read: ''"),
    ],
)
def test_a_writer_that_cannot_fails_and_the_others_are_judged_without_it(
    said: Any, cause: str
) -> None:
    hosts = Hosts(**{"gpu_1.write": said})
    results, _ = rounds(hosts, view())
    assert results["gpu-1/data"].status is Status.FAIL
    assert cause in results["gpu-1/data"].cause
    assert (results["gpu-2/data"].status, results["gpu-2/data"].value) == (Status.PASS, 2)
    assert hosts.files == {}


def test_a_host_that_cannot_be_reached_is_not_assessed() -> None:
    hosts = Hosts(**{"gpu_1.write": ConnectionFailed("no route to host")})
    results, _ = rounds(hosts, view())
    assert results["gpu-1/data"].status is Status.NOT_ASSESSED
    assert results["gpu-1/data"].cause == "no route to host"


def test_a_host_without_facts_or_mount_is_not_assessed_and_not_asked() -> None:
    hosts = Hosts()
    results, _ = rounds(hosts, view(gpu_1=None, gpu_2=facts(mounts=())))
    assert results["gpu-1/data"].cause == "gpu-1 did not answer"
    assert results["gpu-2/data"].cause == "/data is not mounted"
    assert {r.status for t, r in results.items() if t != "nas1/data"} == {Status.NOT_ASSESSED}
    assert {host for host, _ in hosts.asked} == {"nas1"}


def test_nothing_is_written_where_nobody_could_remove_it() -> None:
    rack = facts("systemd-nspawn", "libnfs", ())
    hosts = Hosts()
    results, measured = rounds(hosts, view(EXTERNAL, nas1=rack, gpu_1=rack, gpu_2=rack))
    assert {r.status for r in results.values()} == {Status.NOT_ASSESSED}
    assert (hosts.asked, measured) == ([], [])


def test_files_that_stay_behind_are_said_to() -> None:
    hosts = Hosts(**{"nas1.remove": ended(1, "", "Permission denied")})
    results, _ = rounds(hosts, view())
    (left,) = (result for result in results.values() if result.status is Status.WARN)
    assert "Permission denied" in left.cause
    assert left.fix.startswith("rm /srv/data/.appliance-")


def test_a_defect_on_the_way_still_removes_the_files() -> None:
    hosts = Hosts(**{"gpu_1.time": RuntimeError("a defect")})
    with pytest.raises(RuntimeError):
        run(view(), hosts)
    assert hosts.files == {}


def test_the_server_itself_removes_the_files_wherever_it_stands_in_the_site() -> None:
    hosts = Hosts()
    rounds(hosts, view(SITE.model_copy(update={"hosts": SITE.hosts[::-1]})))
    assert [host for host, step in hosts.asked if step == "remove"] == ["nas1"]


@pytest.mark.parametrize("way", [StoragePath.LOCAL, StoragePath.KERNEL])
def test_what_was_written_lies_at_its_name_alone(way: StoragePath, tmp_path: Path) -> None:
    route = Route("gpu-1", way, str(tmp_path))
    said = process.run(route.write(".appliance-1", "proof", 5000)).stdout.split()
    (file,) = tmp_path.iterdir()
    assert str(file) == route.file(".appliance-1", "gpu-1", "proof")
    assert hashlib.sha256(file.read_bytes()).hexdigest() == said[1]
    assert file.stat().st_size == 5000
    assert int(said[0]) > 0


def test_a_place_whose_group_is_that_of_its_files_is_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o3777)
    done = process.run(Route("gpu-1", StoragePath.KERNEL, str(tmp_path)).write(".a-1", "proof", 5))
    assert [file.name for file in tmp_path.iterdir()] == [".a-1-proof-gpu-1"], done.stderr


@pytest.mark.parametrize("way", [StoragePath.LOCAL, StoragePath.KERNEL])
@pytest.mark.parametrize("plant", ["{}", "{}.d"])
def test_a_link_that_another_user_puts_at_its_name_is_not_followed(
    way: StoragePath, plant: str, tmp_path: Path
) -> None:
    """The name stands in the arguments of all processes."""
    victim, place = tmp_path / "victim", tmp_path / "data"
    place.mkdir()
    victim.mkdir()
    (victim / "file").write_text("root's own")
    route = Route("gpu-1", way, str(place))
    name = plant.format(route.file(".appliance-1", "gpu-1", "proof"))
    Path(name).symlink_to(victim if plant.endswith(".d") else victim / "file")
    done = process.run(route.write(".appliance-1", "proof", 5000), check=False)
    assert [(victim / "file").read_text(), *victim.iterdir()] == ["root's own", victim / "file"]
    assert (done.returncode == 0) is not plant.endswith(".d")


@pytest.mark.parametrize("way", [StoragePath.LOCAL, StoragePath.KERNEL])
@pytest.mark.parametrize("swap", ["link", "folder", "late"])
def test_a_directory_that_another_user_exchanges_leads_nowhere(
    way: StoragePath, swap: str, tmp_path: Path
) -> None:
    """In a place without a sticky bit whoever may write there renames what root has made."""
    victim, place, tools = tmp_path / "victim", tmp_path / "data", tmp_path / "tools"
    for folder in (victim, place, tools):
        folder.mkdir()
    (victim / "file").write_text("root's own")
    (victim / "other").mkdir()
    name = f"{place}/.appliance-1-proof-gpu-1.d"
    plants = {
        "link": f"ln -s {victim} {name}",
        "folder": f"/bin/mkdir -m 777 {name}; ln -s {victim}/file {name}/file",
    }
    # In the old way the file lay below the name, in the new one in the directory that the script is in.
    tool, line = "dd", f'for d in . {name}; do ln -s {victim}/file $d/file; done; exec /bin/dd "$@"'
    if swap != "late":
        tool, line = "mkdir", f'/bin/mkdir "$@"; mv {name} {name}.away; {plants[swap]}'
    (tools / tool).write_text(f"#!/bin/sh\n{line}\n")
    (tools / tool).chmod(0o755)
    route = Route("gpu-1", way, str(place))
    path = {"PATH": f"{tools}:{os.environ['PATH']}"}
    done = process.run(route.write(".appliance-1", "proof", 5000), env=path, check=False)
    assert done.returncode != 0
    assert (victim / "file").read_text() == "root's own"
    assert sorted(p.name for p in victim.iterdir()) == ["file", "other"]


def test_root_of_a_client_makes_no_file_in_a_directory_that_is_open_to_all(tmp_path: Path) -> None:
    """The kernel refuses whatever is opened to be made there and is another's, as root's own files on a server are."""
    script = Route("gpu-1", StoragePath.KERNEL, str(tmp_path)).write(".appliance-1", "proof", 1)[2]
    made = [word for word in script.split() if word.startswith("of=")]
    assert made == ["of=./file"]


def test_a_site_without_mounts_has_nothing_to_prove() -> None:
    bare = SITE.model_copy(update={"storage": SITE.storage.model_validate({})})
    assert run(view(bare), Hosts()) == Outcome()


def test_files_a_killed_run_left_are_removed_once_they_are_old(tmp_path: Path) -> None:
    old, young, own, other = (
        tmp_path / name
        for name in (".appliance-1-proof-a", ".appliance-2-proof-a", ".appliance-3-speed-a", "data")
    )
    for file in (old, young, own, other):
        file.write_text("x")
    half, ours = tmp_path / ".appliance-1-speed-a.d", tmp_path / ".appliance-3-proof-b.d"
    for folder in (half, ours):
        folder.mkdir()
        (folder / "file").write_text("x")
    for path in (old, other, half):
        os.utime(path, (0, 0))
    route = Route("head", StoragePath.LOCAL, str(tmp_path))
    process.run(route.remove(".appliance-3"))
    assert sorted(p.name for p in tmp_path.iterdir()) == [young.name, other.name]
