"""Runs every verb in many environments, each in a child of one process that has read the program once.

python -m tests.support.environments FOLDER writes FOLDER/ends.json: a list of ``Run`` as objects.
"""

import ctypes
import gc
import json
import locale
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from io import TextIOWrapper
from ipaddress import IPv4Network
from pathlib import Path

import click

from appliance import __main__ as entry
from appliance.actions.sites import init, opening
from appliance.adapters import ssh
from appliance.cli.main import cli
from appliance.errors import ConfigError, ConnectionFailed
from appliance.lab import requirements, spec
from appliance.provision import build

NOBODY = 65534
SECONDS = 120
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPD3fvc9ojzzmnW5Gb2AQXUtwJVfPv6VeOMOMcXqRgOI"
WORDS = {"hosts": "2", "profile": "hpc", "host": "gpu-1", "name": "hpc"}
"""What arguments and required options are given by their names; "x" else."""
EITHER: dict[tuple[str, ...], tuple[str, ...]] = {("init",): ("--count", "2", "--profile", "hpc")}
"""Options of which a verb requires one of several, so that none of them is required."""
CLONE_NEWNS = 0x00020000
ALL: tuple[str, ...] = ()
LONG = ("init", "plan", "deploy", "health", "queue render", "report", "validate", "profile list")
"""Verbs that write, print much or open many files."""


@dataclass(frozen=True)
class Run:
    """How a verb ended in an environment, and how many reports it left; a negative code is a signal."""

    environment: str
    verb: str
    code: int
    out: str
    err: str
    reports: int


@dataclass(frozen=True)
class Environment:
    """What is done in the child before the verb begins; ``verbs``: which, none for all."""

    prepare: Callable[[Path], None]
    verbs: tuple[str, ...] = ALL
    needs_root: bool = False


def close(*numbers: int) -> Callable[[Path], None]:
    """As the shell's ``>&-``, at the start of Python."""

    def prepare(folder: Path) -> None:
        for number in numbers:
            os.close(number)
            setattr(sys, ("stdin", "stdout", "stderr")[number], None)

    return prepare


def full(folder: Path) -> None:
    """Standard output is a device without room."""
    _print_to(os.open("/dev/full", os.O_WRONLY))


def unread(folder: Path) -> None:
    """Standard output is a pipe whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    _print_to(writer)


def ascii_only(folder: Path) -> None:
    """A locale that is not UTF-8, for streams and for files that are opened without naming an encoding."""
    locale.setlocale(locale.LC_ALL, "C")
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, TextIOWrapper)
        stream.reconfigure(encoding="ascii")


def bare(folder: Path) -> None:
    """No variable at all, no program in PATH, the narrowest terminal, a folder that is gone."""
    os.environ.clear()
    os.environ |= {"PATH": "/nonexistent", "COLUMNS": "1", "APPLIANCE_CACHE": str(folder / "cache")}
    gone = folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()


def nobody(folder: Path) -> None:
    """A user without rights, name of home or readable current folder."""
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    os.chdir(closed)
    os.environ.pop("HOME", None)
    _become_nobody()


def monitor(folder: Path) -> None:
    """A user who may read the site with its keys, and write nowhere."""
    for path in (folder / "site").rglob("*"):
        os.chown(path, NOBODY, NOBODY)
    for path in (folder / "site", folder / "site/secrets"):
        os.chown(path, 0, 0)
        path.chmod(0o755)
    _become_nobody()


def limited(what: int, amount: int) -> Callable[[Path], None]:
    """A resource limit, as by ``ulimit``."""
    return lambda folder: resource.setrlimit(what, (amount, amount))


def little_memory(folder: Path) -> None:
    """Room for some MiB more than the program holds once it has been read."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    limit = pages * resource.getpagesize() + (12 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def full_disk(folder: Path) -> None:
    """The site, its runs and what is written anew lie on a file system without room."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.unshare(CLONE_NEWNS)
    libc.mount(b"none", b"/", None, 0x44000, None)
    kept = folder.with_name(f"{folder.name}-kept")
    folder.rename(kept)
    folder.mkdir()
    if libc.mount(b"none", str(folder).encode(), b"tmpfs", 0, b"size=256k"):
        os._exit(77)
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    with (folder / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 512)
        except OSError:
            pass
    os.chdir(folder)


ENVIRONMENTS = {
    "plain": Environment(lambda folder: None),
    "stdout closed": Environment(close(1)),
    "stdin and stderr closed": Environment(close(0, 2), LONG),
    "all closed": Environment(close(0, 1, 2), LONG),
    "stdout full": Environment(full),
    "stdout unread": Environment(unread, LONG),
    "ASCII": Environment(ascii_only),
    "bare": Environment(bare),
    "nobody": Environment(nobody, needs_root=True),
    "monitor": Environment(monitor, ("health", "plan", "images show", "node show"), True),
    "16 files": Environment(limited(resource.RLIMIT_NOFILE, 16), LONG),
    "little memory": Environment(little_memory, LONG),
    "full disk": Environment(full_disk, LONG, needs_root=True),
}


def leaves(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every verb and sub-verb with its words."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


def words_of(path: tuple[str, ...], command: click.Command, folder: Path) -> list[str]:
    """A command line of this verb for the site in ``folder``."""
    words = [*path, *EITHER.get(path, ())]
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            words += [_value(parameter, folder)] if parameter.required else []
        elif "--site" in parameter.opts:
            words += ["--site", str(folder / "site")]
        elif "--yes" in parameter.opts:
            words += ["--yes"]
        elif parameter.required:
            words += [parameter.opts[0], _value(parameter, folder)]
    return words


def _value(parameter: click.Parameter, folder: Path) -> str:
    if isinstance(parameter.type, click.Choice):
        return str(parameter.type.choices[0])
    if isinstance(parameter.type, click.Path):
        return str(folder / "new")
    return WORDS.get(parameter.name or "", str(folder / "site") if parameter.nargs < 0 else "x")


def _print_to(number: int) -> None:
    os.dup2(number, 1)
    os.close(number)


def _become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def _refuse(address: str, port: int, timeout: float) -> None:
    raise ConnectionFailed(f"{address} refuses connections on port {port}", "start sshd there")


def _no_rack(*, virtual: bool = False) -> None:
    raise ConfigError("the virtual rack cannot stand here: a test", "none")


def make_site(folder: Path) -> None:
    """A sound site whose hosts answer no connection, pinned keys included."""
    loaded = init.init(folder / "site", 2, "hpc", None, IPv4Network("10.0.0.0/24"))
    pins = [f"{host.address} {KEY}\n" for host in loaded.site.hosts]
    (folder / "site/known_hosts").write_text("".join(pins), encoding="utf-8")


def child(folder: Path, environment: Environment, words: list[str]) -> None:
    """Ends this process as the program would end."""
    signal.alarm(SECONDS)
    os.chdir(folder)
    for number, name in ((0, "/dev/null"), (1, folder / "out"), (2, folder / "err")):
        opened = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        mode = "w" if number else "r"
        setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    code: object = 0
    environment.prepare(folder)
    sys.argv = ["appliance", *words]
    try:
        entry.main()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - as Python itself does
        sys.excepthook(*sys.exc_info())
        code = 1
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except OSError:
        # As Python ends where it cannot flush standard output.
        code = 120
    os._exit(code if isinstance(code, int) else 0)


def main(root: Path) -> None:
    """Runs all; as many at once as there are processors."""
    spec.STATE_ROOT = root / "lab"
    opening.RACK_RUNS = root / "runs"
    requirements.require = _no_rack
    build.require = _no_rack
    ssh._dial = _refuse  # type: ignore[assignment]
    os.environ["APPLIANCE_CACHE"] = str(root / "cache")
    make_site(root)
    gc.freeze()
    running: dict[int, tuple[str, str, Path]] = {}
    ends: list[Run] = []
    for name, environment in ENVIRONMENTS.items():
        if environment.needs_root and os.geteuid():
            continue
        for path, command in leaves(cli):
            verb = " ".join(path)
            if environment.verbs and verb not in environment.verbs:
                continue
            folder = root / f"{name}-{'-'.join(path)}".replace(" ", "-")
            shutil.copytree(root / "site", folder / "site")
            while len(running) >= (os.cpu_count() or 1):
                ends.append(_wait(running))
            pid = os.fork()
            if pid == 0:
                child(folder, environment, words_of(path, command, folder))
            running[pid] = name, verb, folder
    while running:
        ends.append(_wait(running))
    (root / "ends.json").write_text(json.dumps([asdict(end) for end in ends]), encoding="utf-8")


def _wait(running: dict[int, tuple[str, str, Path]]) -> Run:
    pid, status = os.wait()
    name, verb, folder = running.pop(pid)
    kept = folder.with_name(f"{folder.name}-kept")
    if kept.exists():
        folder = kept
    out, err = ((folder / f).read_text(encoding="utf-8", errors="replace") for f in ("out", "err"))
    reports = len(list((folder / "site/runs").glob("*/report.json")))
    return Run(name, verb, os.waitstatus_to_exitcode(status), out, err, reports)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
