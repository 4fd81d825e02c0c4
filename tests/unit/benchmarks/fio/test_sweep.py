"""What fio says: a real run is read, and whatever is cut or doctored is refused."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.adapters.process import Completed, run
from appliance.benchmarks.fio.sweep import PARTS, SCRIPT, Sweep, read, script_arguments
from appliance.benchmarks.reading import Unread

REAL = (Path(__file__).parents[3] / "data/benchmarks/fio/fio-3.33.txt").read_text()


def doctored(part: str, **changes: object) -> str:
    text, _, logs = REAL.partition("\nappliance-log ")
    printed = json.loads(text)
    for job in printed["jobs"]:
        if job["jobname"] == part:
            job.update(changes)
    return f"{json.dumps(printed)}\nappliance-log {logs}"


def moved(rate: float = 1000.0, **changes: float) -> dict[str, float]:
    """One second of so many bytes and operations."""
    own = dict.fromkeys(("bw_bytes", "iops", "io_bytes", "total_ios"), rate) | {"runtime": 1000}
    return own | changes


def log(rates: list[int]) -> str:
    lines = "".join(f"{500 * i + 3}, {rate}, 0, 0, 0\n" for i, rate in enumerate(rates, 1))
    return f"{REAL.partition(chr(10) + 'appliance-log ')[0]}\nappliance-log seq_read\n{lines}"


def test_a_real_run_is_read() -> None:
    found = read(REAL, PARTS)
    assert found.version == "fio-3.33"
    printed = {
        job["jobname"]: job for job in json.loads(REAL.partition("\nappliance-log ")[0])["jobs"]
    }
    assert found.rates == {
        "seq_write": printed["seq_write"]["write"]["bw_bytes"],
        "seq_read": printed["seq_read"]["read"]["bw_bytes"],
        "rand_write": printed["rand_write"]["write"]["iops"],
        "rand_read": printed["rand_read"]["read"]["iops"],
        "create": printed["create"]["read"]["iops"],
    }
    assert set(found.decay) == {"seq_read", "seq_write"}


@pytest.mark.parametrize("changes", [{}, {"bw_bytes": 1019.0}, {"iops": 985.0}])
def test_a_rate_may_be_rounded(changes: dict[str, float]) -> None:
    found = read(doctored("seq_read", read=moved(**changes)), PARTS)
    assert found.rates["seq_read"] == changes.get("bw_bytes", 1000.0)


def test_a_storage_that_slows_down_is_seen_in_the_log() -> None:
    assert read(log([1000] * 4 + [900] * 4 + [600] * 4), PARTS).decay == {"seq_read": 40.0}
    assert read(log([1000] * 12), PARTS).decay == {"seq_read": 0.0}


def test_what_several_threads_reach_at_one_time_is_added_up() -> None:
    once = log([600] * 8 + [300] * 4)
    twice = once + "".join(f"{500 * i}, 400, 0, 0, 0\n" for i in range(1, 13))
    assert read(twice, PARTS).decay == {"seq_read": 30.0}


@pytest.mark.parametrize(("gap", "seen"), [(0, True), (1, True), (2, False)])
def test_a_log_with_a_hole_shows_no_decay(gap: int, seen: bool) -> None:
    times = [i + (gap if i > 6 else 0) for i in range(1, 13)]
    lines = "".join(f"{500 * at}, 1000, 0, 0, 0\n" for at in times)
    text = f"{REAL.partition(chr(10) + 'appliance-log ')[0]}\nappliance-log seq_read\n{lines}"
    assert read(text, PARTS).decay == ({"seq_read": 0.0} if seen else {})


def test_a_log_of_a_part_that_was_not_asked_for_is_left_out() -> None:
    parts = [part for part in PARTS if part != "seq_read"]
    assert read(log([1000] * 12), parts).decay == {}


def test_three_words_make_a_line_of_a_log() -> None:
    text = log([]) + "".join(f"{500 * i}, {100 * i}, 0\n" for i in (6, 5, 4, 3, 2, 1))
    assert read(text, PARTS).decay == {"seq_read": 0.0}
    assert read(log([600, 500, 400, 300, 200, 100]), PARTS).decay["seq_read"] == pytest.approx(
        100 * 400 / 550
    )


@pytest.mark.parametrize("rates", [[], [1000] * 5])
def test_a_short_log_shows_no_decay(rates: list[int]) -> None:
    assert read(log(rates), PARTS).decay == {}


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("", "no output"),
        ("fio: failed to open", "it printed no JSON"),
        (REAL[:9000], "it is not JSON"),
        ('{"jobs": []}', "fio version: Field required"),
        ('{"fio version": "fio-3.33", "jobs": []}', "part seq_write is missing"),
        (doctored("seq_read", error=5), "part seq_read ended with error 5"),
        (
            doctored("seq_read", read=moved(bw_bytes=-1)),
            "bw_bytes",
        ),
        (doctored("seq_read", read=moved(io_bytes=0)), "no byte"),
        (doctored("seq_read", read=moved(runtime=0)), "no byte"),
        (doctored("seq_read", read=moved(bw_bytes=1000 * 1024.0)), "contradicts itself"),
        (doctored("seq_read", read=moved(bw_bytes=1030.0)), "contradicts itself"),
        (doctored("seq_read", read=moved(io_bytes=900)), "contradicts itself"),
        (doctored("rand_read", read=moved(iops=1100.0)), "contradicts itself"),
        (doctored("seq_read", read=moved(1.1e12)), "cannot have reached 1.1e.12 bytes/s"),
        (doctored("rand_read", read="fast"), "read"),
        (log([1]) + "500, nonsense, 0", "the bandwidth is no number: 'nonsense'"),
        (log([1]) + "500", "is incomplete"),
    ],
)
def test_what_is_no_whole_measurement_is_refused(output: str, why: str) -> None:
    with pytest.raises(Unread, match=why.replace("'", ".")):
        read(output, PARTS)


@settings(max_examples=30)
@given(st.integers(0, len(REAL)), st.text(max_size=5))
def test_no_doctored_output_breaks_the_reader(at: int, noise: str) -> None:
    with suppress(Unread):
        assert isinstance(read(REAL[:at] + noise, PARTS), Sweep)


FIO = """#!/bin/sh
cat >job; echo x >seq_read_bw.log
echo "$(id -u) $(stat -c '%u %a %h' .) $(pwd -P) $*" >&2
touch data.0 data.1 2>/dev/null || echo cannot write >&2
"""


def played(at: Path, tool: str = FIO) -> Completed:
    """The script on a folder, with a program that stands for fio."""
    tools = at.parent / "tools"
    tools.mkdir(exist_ok=True)
    for folder in (tools, *tools.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    (tools / "fio").write_text(tool)
    (tools / "fio").chmod(0o755)
    env = {"PATH": f"{tools}:/usr/sbin:/usr/bin:/sbin:/bin"}
    given = script_arguments(str(at), 1, "1m", 10, PARTS)
    return run(("sh", "-c", SCRIPT, "sh", *given), env=env, check=False)


def test_fio_works_as_nobody_in_a_folder_nobody_could_know_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    at = tmp_path / "scratch"
    at.mkdir()
    at.chmod(0o1777)
    done = played(at)
    assert done.returncode == 0, done.stderr
    user, owner, mode, _, folder, *asked = done.stderr.split()
    as_root = os.geteuid() == 0 and shutil.which("setpriv")
    assert user == owner == ("65534" if as_root else str(os.geteuid()))
    assert (mode, folder.startswith(f"{at}/.appliance-fio-")) == ("700", True)
    assert asked[:2] == ["--output-format=json", "--section=seq_write"]
    assert done.stdout == "appliance-log seq_read\nx\n"
    assert list(at.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root")
def test_fio_works_as_nobody_where_the_group_of_a_place_is_that_of_its_files(
    tmp_path: Path,
) -> None:
    at = tmp_path / "scratch"
    at.mkdir()
    at.chmod(0o3777)
    done = played(at)
    assert done.stderr.split()[:3] == ["65534", "65534", "2700"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_begins_in_no_folder_that_another_user_has_exchanged(tmp_path: Path) -> None:
    """Without a sticky bit whoever may write to the place renames what root has made there."""
    at, victim = tmp_path / "scratch", tmp_path / "victim"
    at.mkdir()
    victim.write_text("root's own")
    swap = f'd=$(/bin/mktemp "$@"); mv $d {at}/away; mkdir -m 777 $d; ln -s {victim} $d/data.0'
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/mktemp").write_text(f"#!/bin/sh\n{swap}; echo $d\n")
    (tmp_path / "tools/mktemp").chmod(0o755)
    done = played(at, "#!/bin/sh\necho evil >data.0\n")
    assert (done.returncode, victim.read_text()) == (1, "root's own")
    assert done.stderr.endswith("another has changed it\n")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root")
def test_root_s_files_are_no_file_of_fio_s_even_behind_a_link(tmp_path: Path) -> None:
    """Whoever gets a link into the folder, as the server's other nobody could."""
    at, victim = tmp_path / "scratch", tmp_path / "victim"
    at.mkdir()
    victim.write_text("root's own")
    victim.chmod(0o600)
    done = played(
        at, f"#!/bin/sh\nln -s {victim} data.0; ln -s {victim} seq_read_bw.log; echo >data.0"
    )
    assert "Permission denied" in done.stderr
    assert victim.read_text() == "root's own"
    assert "root's own" not in done.stdout


def test_a_folder_that_cannot_be_made_measures_nothing(tmp_path: Path) -> None:
    done = played(tmp_path / "none")
    assert (done.returncode, done.stdout) == (1, "")
