"""One look at a time, which no user can keep from happening, and which waits for another one for a bounded time."""

import fcntl
import json
import os
import shutil
import stat
import time
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.limits import tell
from appliance.mig import host as mig
from appliance.models.watch import Watch
from appliance.probe.ask import Ask
from appliance.stages.slurm.collect import watch as collect
from appliance.watch import command, lock, verdict
from appliance.watch.place import SLURM
from appliance.watch.verdict import Verdict

needs_others = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs another user"
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host of which all users can see /run."""
    folder = tmp_path / "run/appliance"
    monkeypatch.setattr(lock, "LOCK", str(folder / "private/watch.lock"))
    monkeypatch.setattr(lock, "WAITS", str(folder / "watch.waits"))
    monkeypatch.setattr(lock, "PAUSE_S", 0.01)
    monkeypatch.setattr(SLURM, "last", str(folder / "watch.json"))
    monkeypatch.setattr(mig, "LOCK", str(tmp_path / "mig.lock"))
    for one in tmp_path.parents:
        if one.stat().st_uid == os.geteuid() and one != Path("/"):
            one.chmod(one.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    return folder


@needs_others
def test_a_user_can_hold_no_lock_of_the_hosts_programs(place: Path) -> None:
    before = os.umask(0)
    try:
        with lock.alone(), mig.alone():
            pass
    finally:
        os.umask(before)
    (place / "open").touch(0o644)
    # Whoever may read a file may hold its lock.
    reads = ("setpriv", "--reuid=61234", "--regid=61234", "--clear-groups", "cat")
    ends = [run((*reads, file), check=False).returncode for file in (lock.LOCK, mig.LOCK)]
    assert (ends, run((*reads, f"{place}/open"), check=False).returncode) == ([1, 1], 0)
    assert stat.S_IMODE(place.stat().st_mode) == 0o755
    assert stat.S_IMODE((place / "private").stat().st_mode) == 0o700


def test_a_look_that_another_one_does_not_let_begin_says_which_one(place: Path) -> None:
    with lock.alone():
        verdict.keep(SLURM, Verdict([], []), 0.0)
        with pytest.raises(lock.Busy, match=f"process {os.getpid()}, has not ended"), lock.alone(0):
            pytest.fail("two looks at once")
    assert json.loads((place / "watch.waits").read_text())["process"] == os.getpid()
    with lock.alone(0):
        pass


@pytest.mark.parametrize(("before", "ends"), [("out", 9), ("", 0), ("over", 0)])
def test_a_prolog_that_may_not_look_goes_by_the_look_before(
    place: Path, monkeypatch: pytest.MonkeyPatch, before: str, ends: int
) -> None:
    settings = place.parent / "settings"
    place.mkdir(parents=True)
    settings.write_text(json.dumps({"version": 1, "node": "gpu-1"}))
    seen = Verdict([], [])
    seen.state = before
    verdict.keep(SLURM, seen, 0.0)
    alone = lock.alone
    with alone():
        monkeypatch.setattr(lock, "alone", lambda: alone(0.0))
        assert command.main(["prolog", "--file", str(settings)]) == ends
        assert command.main(["act", "--file", str(settings)]) == command.REFUSED


def collected(root: Path, waited: float | None) -> Watch:
    """What the probe makes of a look of ten minutes ago, and of one that gave up ``waited`` s ago."""
    for name in ("usr/local/sbin/appliance-watch", "run/appliance/watch.json"):
        (root / name).parent.mkdir(parents=True)
    (root / "usr/local/sbin/appliance-watch").touch()
    now = time.time()
    kept = {"version": 1, "time": now - 600, "causes": [], "gaps": [], "slurm": ""}
    (root / "run/appliance/watch.json").write_text(json.dumps(kept))
    if waited is not None:
        said = json.dumps({"time": now - waited, "process": 77})
        (root / "run/appliance/watch.waits").write_text(said)
    return Watch.model_validate(collect.collect(Ask({}, str(root)))["watch"])


@pytest.mark.parametrize(("waited", "holder"), [(None, None), (30, 77), (900, None)])
def test_the_probe_knows_a_look_that_does_not_end(
    tmp_path: Path, waited: float | None, holder: int | None
) -> None:
    assert collected(tmp_path, waited).held_by == holder


@pytest.mark.parametrize("plant", ["link", "fifo", "file"])
def test_a_file_in_the_way_is_replaced_and_nothing_behind_it_changed(
    tmp_path: Path, plant: str
) -> None:
    """The folder of metrics is the exporter's, which answers the network."""
    victim = tmp_path / "victim"
    victim.write_text("root's own")
    for write in (verdict.write, tell._write):
        new = tmp_path / "x.prom.new"
        if plant == "link":
            new.symlink_to(victim)
        elif plant == "fifo":
            os.mkfifo(new)
        else:
            new.touch(0o666)
        with (victim if plant != "file" else new).open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            write(str(tmp_path / "x.prom"), "a 1\n")
        assert (tmp_path / "x.prom").read_text() == "a 1\n"
        assert not (tmp_path / "x.prom").is_symlink()
        assert victim.read_text() == "root's own"


def test_a_folder_where_the_metrics_belong_costs_the_metrics_alone(
    place: Path, tmp_path: Path
) -> None:
    (tmp_path / SLURM.metrics / "full").mkdir(parents=True)
    verdict.keep(SLURM, Verdict([], []), 0.0, str(tmp_path))
    assert verdict.last(SLURM)["state"] == ""
