"""Prolog and epilog as Slurm runs them: folders of jobs among what users have put there, and what a last job leaves behind."""

import ctypes
import os
import shlex
import shutil
import signal
import stat
import subprocess  # noqa: TID251 - leaves processes behind, as jobs do
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from jinja2 import Environment

from appliance.adapters.process import Completed, run
from appliance.config import data
from tests.support import role_programs

STEPS = data.root() / "roles/slurm/templates/etc/slurm"
PROGRAM = Path("roles/slurm/files/usr/local/libexec/appliance/job_places.py")
IS_ROOT = os.geteuid() == 0
ADA, EVE = (61234, 61235) if IS_ROOT else (os.getuid(), os.getuid())
"""Users that no host has; an ordinary user runs the program for himself."""
root = pytest.mark.skipif(not IS_ROOT, reason="needs other users")
setpriv = pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv (util-linux)")


@pytest.fixture(autouse=True)
def comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program changes the folder of its process, which is that of the tests here."""
    monkeypatch.chdir(Path.cwd())


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Open to all, as stage storage makes it."""
    with_reach(tmp_path)
    made = tmp_path / "scratch"
    made.mkdir()
    made.chmod(0o1777)
    return made


def with_reach(place: Path) -> None:
    """Other users have to get there; pytest closes its folders."""
    for folder in (place, *place.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)


def step(name: str, scratch: Path, job: int = 9, uid: int = ADA, **given: object) -> Completed:
    """The script as the role writes it, for one job."""
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["quote"] = shlex.quote
    text = environment.from_string((STEPS / name).read_text()).render(
        slurm_scratch=scratch,
        __slurm_watch_program="true",
        __slurm_is_divided=False,
        __slurm_gpu_jobs=scratch / "none",
        __slurm_places_program=f"{sys.executable} -ISB {role_programs.ROOT / PROGRAM}",
        **given,
    )
    asked = {"SLURM_JOB_ID": str(job), "SLURM_JOB_UID": str(uid), "SLURMD_NODENAME": ""}
    return run(("sh", "-c", text), env=asked, check=False)


def prolog(scratch: Path, job: int = 9, uid: int = ADA) -> Path:
    done = step("prolog.d/10-appliance.sh.j2", scratch, job, uid)
    assert done.returncode == 0, done.stderr
    return scratch / f".jobs/job-{job}"


def epilog(scratch: Path, job: int = 9, uid: int = ADA) -> None:
    done = step("epilog.d/10-appliance.sh.j2", scratch, job, uid)
    assert (done.returncode, done.stderr) == (0, "")


def as_user(uid: int, script: str, cwd: Path = Path("/")) -> Completed:
    who = (f"--reuid={uid}", f"--regid={uid}", "--clear-groups") if IS_ROOT else ()
    argv = ("setpriv", *who, "sh", "-c", script)
    return run(argv, cwd=cwd, check=False)


def is_new_and_ada_s(folder: Path) -> bool:
    seen = folder.lstat()
    own = (stat.S_IFMT(seen.st_mode), stat.S_IMODE(seen.st_mode), seen.st_uid)
    return own == (stat.S_IFDIR, 0o700, ADA) and not list(folder.iterdir())


@setpriv
def test_a_job_of_a_user_no_file_names_works_in_a_folder_of_its_own(scratch: Path) -> None:
    folder = prolog(scratch)
    assert is_new_and_ada_s(folder)
    said = step("task-prolog.sh.j2", scratch).stdout if not IS_ROOT else ""
    assert said in {"", f"export SCRATCH={folder}\n"}
    assert as_user(ADA, "echo secret >mine && cat mine", folder).stdout == "secret\n"


@root
@setpriv
def test_the_task_is_told_of_its_folder_and_of_no_other(scratch: Path) -> None:
    folder = prolog(scratch)
    task = step("task-prolog.sh.j2", scratch)  # as root, whose folder it is not
    assert task.stdout == ""
    template = (STEPS / "task-prolog.sh.j2").read_text()
    text = Environment(trim_blocks=True, lstrip_blocks=True).from_string(template)
    script = text.render(slurm_scratch=scratch, __slurm_is_divided=False)
    told = as_user(ADA, f"SLURM_JOB_ID=9\n{script}")
    assert told.stdout == f"export SCRATCH={folder}\n"


@root
@setpriv
@pytest.mark.parametrize(
    "plant",
    [
        "mkdir -m 0777 .jobs; mkdir -m 0777 .jobs/job-9; echo evil >.jobs/job-9/run.sh",
        "ln -s {victim} .jobs",
        "echo >.jobs",
        "mkfifo .jobs",
        "mkdir .jobs; ln -s {victim} .jobs/job-9",
        "mkdir -m 0777 job-9; echo evil >job-9/run.sh",
    ],
)
def test_what_another_user_has_put_in_its_place_is_not_taken_for_it(
    scratch: Path, tmp_path: Path, plant: str
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o755)
    as_user(EVE, plant.format(victim=victim), scratch)
    assert is_new_and_ada_s(prolog(scratch))
    assert (victim.stat().st_uid, list(victim.iterdir())) == (0, [])
    places = scratch / ".jobs"
    assert (places.lstat().st_uid, stat.S_IMODE(places.lstat().st_mode)) == (0, 0o711)
    assert as_user(EVE, "ls .jobs || mkdir .jobs/job-10 || mv .jobs x", scratch).returncode


def test_what_a_job_of_that_number_left_before_is_not_the_next_one_s(scratch: Path) -> None:
    before = prolog(scratch)
    (before / "run.sh").write_text("evil")
    before.chmod(0o777)
    assert is_new_and_ada_s(prolog(scratch))
    epilog(scratch)
    assert list((scratch / ".jobs").iterdir()) == []


@root
@setpriv
def test_nothing_is_made_where_others_can_replace_the_scratch(scratch: Path) -> None:
    scratch.chmod(0o777)
    assert not prolog(scratch).exists()
    scratch.chmod(0o1777)
    as_user(EVE, "mkdir -m 0777 hers", scratch)
    assert not prolog(scratch / "hers").exists()
    (scratch / "way").symlink_to(scratch)
    assert is_new_and_ada_s(prolog(scratch / "way")), "root's own link is root's word"


@root
@setpriv
def test_the_epilog_removes_the_job_s_files_and_nobody_else_s(
    scratch: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "kept").touch()
    folder = prolog(scratch)
    as_user(ADA, f"ln -s {victim} link; mkdir -p a/b; chmod 0 a", folder)
    as_user(EVE, "mkdir job-9; echo >job-9/hers", scratch)
    epilog(scratch)
    assert list((scratch / ".jobs").iterdir()) == []
    assert (victim / "kept").exists()
    assert (scratch / "job-9/hers").exists()


@root
@setpriv
@pytest.mark.parametrize("owner", [0, ADA])
def test_a_job_that_began_before_the_upgrade_leaves_nothing_either(
    scratch: Path, owner: int
) -> None:
    old = scratch / "job-9"
    old.mkdir()
    (old / "data").touch()
    os.chown(old, owner, owner)
    epilog(scratch)
    assert not old.exists()


def test_folders_nested_by_the_thousand_are_removed(scratch: Path) -> None:
    script = "import os\nfor _ in range(3000):\n    os.mkdir('d'); os.chdir('d')"
    run((sys.executable, "-c", script), cwd=prolog(scratch))
    epilog(scratch)
    assert list((scratch / ".jobs").iterdir()) == []


def test_what_an_epilog_could_not_remove_takes_little_time_of_the_next_ones(
    scratch: Path, places: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    monkeypatch.setenv("SLURM_JOB_UID", str(ADA))
    (scratch / ".jobs/job-9/data").mkdir(parents=True)
    (scratch / ".jobs").chmod(0o711)
    (scratch / ".jobs/gone-1/of/another").mkdir(parents=True)
    asked: list[tuple[float, tuple[str, ...]]] = []
    monkeypatch.setattr(places, "_run", lambda *words: asked.append((words[0], words[5:])))
    places.clear(places.Job(), str(scratch))
    (first, mine), (second, left) = asked
    assert first > 5 * second
    assert "./gone-1" not in mine
    assert len(mine) == 1
    assert {"./gone-1", *mine} == set(left)


def containers(scratch: Path, at: Path, run_at: Path) -> Completed:
    template = (STEPS / "prolog.d/20-containers.sh.j2").read_text().replace("/run/", f"{run_at}/")
    text = Environment(trim_blocks=True, lstrip_blocks=True).from_string(template)
    program = f"{sys.executable} -ISB {role_programs.ROOT / PROGRAM}"
    script = text.render(slurm_containers={"at": at}, __slurm_places_program=program)
    asked = {"SLURM_JOB_ID": "9", "SLURM_JOB_UID": str(ADA)}
    return run(("sh", "-c", script), env=asked, check=False)


def test_a_user_s_images_stay_from_job_to_job(scratch: Path, tmp_path: Path) -> None:
    at = scratch / "enroot"
    at.mkdir()
    assert containers(scratch, at, tmp_path).stderr == ""
    own = [tmp_path / f"enroot/{ADA}", *(at / f"{n}/{ADA}" for n in ("cache", "data", "tmp"))]
    assert all(map(is_new_and_ada_s, own))
    (at / f"cache/{ADA}/layer").touch()
    (at / f"cache/{ADA}").chmod(0o777)
    containers(scratch, at, tmp_path)
    assert (at / f"cache/{ADA}/layer").exists()
    assert stat.S_IMODE((at / f"cache/{ADA}").stat().st_mode) == 0o700


@root
@setpriv
def test_a_place_for_images_that_another_user_prepared_is_not_taken(
    scratch: Path, tmp_path: Path
) -> None:
    at, victim = scratch / "enroot", tmp_path / "victim"
    at.mkdir()
    victim.mkdir(mode=0o755)
    for name in ("cache", "data", "tmp"):
        (at / name).mkdir()
        (at / name).chmod(0o777)
    plants = f"mkdir -m 0777 cache/{ADA}; ln -s {victim} data/{ADA}; echo >tmp/{ADA}"
    as_user(EVE, plants, at)
    (tmp_path / "enroot").mkdir()
    containers(scratch, at, tmp_path)
    assert all(is_new_and_ada_s(at / f"{n}/{ADA}") for n in ("cache", "data", "tmp"))
    assert victim.stat().st_uid == 0
    assert {stat.S_IMODE((at / n).stat().st_mode) for n in ("cache", "data", "tmp")} == {0o755}
    shutil.rmtree(at)
    as_user(EVE, f"mkdir -p -m 0777 enroot/cache; ln -s {victim} enroot/data", scratch)
    assert "belongs to user" in containers(scratch, at, tmp_path).stderr
    assert not (at / f"cache/{ADA}").exists()
    assert list(victim.iterdir()) == []


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program itself, on a host where no other job and no session is."""
    program = role_programs.program(PROGRAM)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with_reach(tmp_path)
    monkeypatch.setattr(program, "SHARED", (str(shared),))
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    monkeypatch.setenv("SLURM_JOB_UID", str(ADA))
    monkeypatch.setenv("SLURMD_NODENAME", "gpu-1")
    monkeypatch.setattr(program, "_run", answers(program, others="9\n"))
    return program


def names(program: ModuleType) -> list[str]:
    return [file.name for file in Path(program.SHARED[0]).iterdir()]


def answers(program: ModuleType, others: str | None, state: str = "closing") -> object:
    """The host's own programs, but for what Slurm and logind say."""
    real = program._run

    def asked(seconds: float, *argv: str) -> str | None:
        told = {"squeue": others, "loginctl": state, "systemctl": ""}
        said: str | None = told[argv[0]] if argv[0] in told else real(seconds, *argv)
        return said

    return asked


@pytest.fixture
def left() -> Iterator["subprocess.Popen[str]"]:
    """A process of the user that waits, and has System V memory of everybody's."""
    script = (
        "import ctypes, time; c = ctypes.CDLL(None)\n"
        "ids = c.shmget(0, 4096, 0o1666), c.semget(0, 1, 0o1666), c.msgget(0, 0o1666)\n"
        "print(*ids, flush=True); time.sleep(600)"
    )
    who = ("setpriv", f"--reuid={ADA}", f"--regid={ADA}", "--clear-groups")
    argv = (*who, sys.executable, "-c", script)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@root
@setpriv
def test_the_last_job_of_a_user_leaves_neither_processes_nor_memory_nor_files(
    places: ModuleType, left: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    assert left.stdout
    ids = left.stdout.readline().split()
    assert sorted(places.queues(ADA)) == sorted(
        zip(("shm", "sem", "msg"), map(int, ids), strict=True)
    )
    shared, victim = Path(places.SHARED[0]), tmp_path / "victim"
    victim.mkdir()
    (victim / "kept").touch()
    as_user(ADA, f"mkdir -p a/b; echo >a/b/c; ln -s {victim} link; mkfifo pipe", shared)
    as_user(EVE, "mkdir -m 0777 hers; echo >hers/file", shared)
    as_user(ADA, "echo >hers/ada; ln -s /etc hers/link", shared)
    assert places.main("end", "") == 0
    assert left.wait(10) == -signal.SIGKILL
    assert list(places.queues(ADA)) == []
    assert sorted(str(p.relative_to(shared)) for p in shared.rglob("*")) == ["hers", "hers/file"]
    assert (victim / "kept").exists()


@root
@setpriv
@pytest.mark.parametrize("others", ["9\n10\n", None])
def test_who_has_another_job_here_or_of_whom_nothing_is_known_keeps_all(
    places: ModuleType,
    left: "subprocess.Popen[str]",
    monkeypatch: pytest.MonkeyPatch,
    others: str | None,
) -> None:
    assert left.stdout
    left.stdout.readline()
    monkeypatch.setattr(places, "_run", answers(places, others))
    as_user(ADA, "echo >file", Path(places.SHARED[0]))
    assert places.main("end", "") == 0
    assert left.poll() is None
    assert len(list(places.queues(ADA))) == 3
    assert names(places) == ["file"]
    for found in places.queues(ADA):
        places.remove(*found)


@root
@setpriv
def test_a_login_session_stays_and_a_job_that_hides_beside_it_does_not(
    places: ModuleType, left: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    assert left.stdout
    left.stdout.readline()
    session = f"/user.slice/user-{ADA}.slice/session-3.scope"
    at = {left.pid: [session]}
    monkeypatch.setattr(
        places, "processes", lambda uid: [(p, c) for p, c in at.items() if left.poll() is None]
    )
    monkeypatch.setattr(places, "_run", answers(places, "9\n", "active"))
    as_user(ADA, "echo >file", Path(places.SHARED[0]))
    assert places.main("end", "") == 0
    assert (left.poll(), names(places)) == (None, ["file"])
    at[left.pid] = ["/system.slice/slurmd.service"]
    at[os.getpid()] = [session]
    places.main("end", "")
    assert left.wait(10) == -signal.SIGKILL
    for found in places.queues(ADA):
        places.remove(*found)


@root
@setpriv
def test_the_user_s_service_manager_is_stopped_before_it_is_killed(
    places: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, ...]] = []
    unit = f"user@{ADA}.service"
    at = [f"/user.slice/user-{ADA}.slice/{unit}/init.scope"]
    turns = iter([[(1 << 22, at)], [(1 << 22, at)], []])
    monkeypatch.setattr(places, "processes", lambda uid: next(turns, []))
    monkeypatch.setattr(places, "_run", lambda seconds, *argv: told.append(argv))
    assert places.ended(ADA)
    assert told == [("systemctl", "stop", unit), ("systemctl", "reset-failed", unit)]


def test_system_users_keep_what_is_theirs(places: ModuleType) -> None:
    assert not any(map(places.is_to_be_cleared, (0, 999, 65534)))


@pytest.mark.parametrize("odd", ["", "../x", "9/../../etc", "9\n", "٣", "-1"])
def test_a_number_that_is_none_makes_nothing(scratch: Path, odd: str) -> None:
    asked = {"SLURM_JOB_ID": odd, "SLURM_JOB_UID": str(ADA)}
    argv = (sys.executable, "-ISB", str(role_programs.ROOT / PROGRAM), "begin", str(scratch))
    done = run(argv, env=asked, check=False)
    assert (done.returncode, list(scratch.iterdir())) == (1, [])
    assert done.stderr.count("\n") == 1


def mounted(at: Path, uid: int) -> None:
    """As fusermount(1) does for a user, by a server that is gone at once."""
    library = ctypes.CDLL(None, use_errno=True)
    try:
        server = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        pytest.skip("needs /dev/fuse")
    options = f"fd={server},rootmode=40000,user_id={uid},group_id={uid}"
    failed = library.mount(b"x", bytes(at), b"fuse.x", 0, options.encode())
    os.close(server)
    if failed:
        pytest.skip("needs the right to mount")


def in_mounts(place: Path) -> list[str]:
    return [
        line for line in Path("/proc/self/mountinfo").read_text().split("\n") if str(place) in line
    ]


@root
@setpriv
@pytest.mark.parametrize("way", ["", "a/b", "with a blank", "link to a mount"])
def test_what_a_user_mounted_in_the_job_s_folder_goes_with_it(
    scratch: Path, places: ModuleType, tmp_path: Path, way: str
) -> None:
    """A folder with a mount on it can be neither renamed nor removed; the rest has to go, too."""
    folder, shared, other = prolog(scratch), Path(places.SHARED[0]), tmp_path / "others"
    other.mkdir()
    try:
        if way == "link to a mount":
            mounted(other, EVE)
            as_user(ADA, f"ln -s {other} link", folder)
        else:
            as_user(ADA, f"mkdir -p '{folder / way}'")
            mounted(folder / way, ADA)
        as_user(ADA, "echo >left", shared)
        assert places.main("end", str(scratch)) == 0
        assert in_mounts(scratch) == []
        assert len(in_mounts(other)) == (way == "link to a mount")
        assert list((scratch / ".jobs").iterdir()) == []
        assert names(places) == []
    finally:
        for line in (*in_mounts(scratch), *in_mounts(other)):
            at = line.split(" ")[4].replace("\\040", " ")
            ctypes.CDLL(None).umount2(at.encode(), 2)


@root
@setpriv
def test_another_job_of_the_user_keeps_what_is_mounted_elsewhere(
    scratch: Path, places: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_run", answers(places, "9\n10\n"))
    folder = prolog(scratch)
    as_user(ADA, "mkdir elsewhere", scratch)
    try:
        mounted(scratch / "elsewhere", ADA)
        mounted(folder, ADA)
        places.main("end", str(scratch))
        assert [line.split(" ")[4] for line in in_mounts(scratch)] == [str(scratch / "elsewhere")]
    finally:
        for line in in_mounts(scratch):
            ctypes.CDLL(None).umount2(line.split(" ")[4].encode(), 2)
