"""No secret of a site leaves it: looked for in everything a deployment writes, shows or starts, good or failing."""

import contextlib
import os
import re
import secrets
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.config.encodings import spellings
from appliance.lab.spec import RackSpec
from tests.integration.rack import PROGRAM, Bench, own_name, raised

pytestmark = [
    pytest.mark.rack,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]

GOOD = f"Zq7+{secrets.token_hex(12)}%x"
ROTATED = f"Rt8={secrets.token_hex(12)}:y"
KEY = "\n".join(
    ["-----BEGIN SECRET-----", *(secrets.token_hex(24) for _ in range(4)), "-----END-----"]
)
MUNGE = b64encode(secrets.token_bytes(96)).decode()
PLANTED = (GOOD, ROTATED, KEY, MUNGE)
PATTERN = spellings(PLANTED)
assert PATTERN is not None
BYTES = re.compile(PATTERN.pattern.encode())

# Where a secret has to be: the files of the daemons that use it.
HOMES = ("/etc/slurm/slurmdbd.conf", "/etc/munge/munge.key")
MEMORY = Path("/dev/shm")

# Python reads this by itself: a defect of ours that has a secret in its very message.
DEFECT = """
from appliance.engine.plan import fingerprint, prepare

def broken(stage, data, variables, salt):
    password = variables.get("slurm_database_password")
    if password:
        raise RuntimeError("cannot digest " + password + repr(variables))
    return fingerprint.inputs_of(stage, data, variables, salt)

prepare.inputs_of = broken
"""


@dataclass
class Watch:
    """Reads the command line and environment of every process of this machine, its containers' too, all the time."""

    found: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    rounds: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Watch":
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._over.wait(0.05):
            self.rounds += 1
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit() and int(entry.name) != os.getpid():
                    self._look(entry)

    def _look(self, entry: Path) -> None:
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                text = (entry / name).read_bytes()
                if name == "cmdline":
                    self.seen.add(Path(text.split(b"\0")[0].decode(errors="replace")).name)
                if BYTES.search(text):
                    program = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
                    self.found.add(f"{name} of {program}")


@dataclass
class Told:
    """What four deployments showed, and who was watching them."""

    good: str
    failing: str
    refused: str
    broken: str
    codes: list[int]
    watch: Watch


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with raised(
        RackSpec(own_name("secrets"), 2), tmp_path_factory.mktemp("secrets"), Bench
    ) as found:
        yield found


def _plant(bench: Bench, password: str) -> None:
    (bench.site / "secrets" / "slurmdbd_password").write_text(password + "\n")


@pytest.fixture(scope="module")
def told(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """One that succeeds, one whose secret file cannot be written, one with a secret of many lines, one with a defect."""
    (bench.site / "secrets" / "munge_key").write_text(MUNGE + "\n")
    codes: list[int] = []
    texts: list[str] = []
    defect = tmp_path_factory.mktemp("defect")
    (defect / "sitecustomize.py").write_text(DEFECT)
    path = os.pathsep.join(filter(None, (str(defect), os.environ.get("PYTHONPATH"))))

    def deploy(*flags: str, env: dict[str, str] | None = None) -> None:
        deployment = bench.deploy(*flags, env=env)
        codes.append(deployment.end())
        texts.append(deployment.text)

    with Watch() as watch:
        _plant(bench, GOOD)
        deploy("--json", "--until", "slurm")
        config = "/etc/slurm/slurmdbd.conf"
        assert bench.shell("head", f"rm {config} && mkdir {config}").returncode == 0
        _plant(bench, ROTATED)
        deploy("--verbose", "--stage", "slurm", "--full")
        assert bench.shell("head", f"rmdir {config}").returncode == 0
        _plant(bench, KEY)
        deploy("--json", "--stage", "slurm", "--full")
        _plant(bench, ROTATED)
        deploy("--stage", "slurm", env={"PYTHONPATH": path})
    good, failing, refused, broken = texts
    return Told(good, failing, refused, broken, codes, watch)


def _places(text: str) -> list[str]:
    assert PATTERN is not None
    return [text[max(0, m.start() - 60) : m.start()] for m in PATTERN.finditer(text)]


def _holding(folder: Path) -> list[Path]:
    """Files below a folder that hold a secret as it is, or one of its lines; a copy of this file holds none.

    grep reads the line of zeros that a sparse disk image is into memory, 21 GB once, so images are left out.
    """
    lines = [line for secret in PLANTED for line in secret.splitlines() if "-----" not in line]
    argv = ["find", str(folder), "-type", "f", "-size", "-256M", "-exec", "grep", "-lFas"]
    for line in lines:
        argv += ["-e", line]
    found = run((*argv, "--", "{}", "+"), check=False, timeout=120).stdout
    return [Path(line) for line in found.splitlines()]


def test_the_deployments_ended_as_they_were_meant_to(told: Told) -> None:
    # 2: no daemon reads a password of many lines, so no host was met.
    assert told.codes == [0, 1, 2, 1]
    assert "slurmdbd.conf" in told.failing
    assert "slurmdbd_password" in told.refused
    assert "RuntimeError" in told.broken


def test_output_and_events_hold_no_secret(told: Told) -> None:
    assert _places(told.good) == []
    assert _places(told.failing) == []
    assert _places(told.refused) == []


def test_traceback_of_a_defect_of_ours_holds_no_secret(told: Told) -> None:
    assert "Traceback" in told.broken
    assert "cannot digest ***" in told.broken
    assert _places(told.broken) == []


def test_no_process_had_a_secret_in_its_arguments_or_environment(told: Told) -> None:
    assert told.watch.rounds > 100
    assert {"slurmdbd", "ssh", "appliance"} <= {n.removesuffix(":") for n in told.watch.seen} | {
        "appliance"
    }
    assert told.watch.found == set()


def test_runs_folder_with_journal_and_reports_holds_no_secret(bench: Bench, told: Told) -> None:
    runs = bench.site / "runs"
    files = [file for file in runs.rglob("*") if file.is_file()]
    assert {"journal.sqlite", "report.json", "report.html"} <= {file.name for file in files}
    assert [file for file in files if BYTES.search(file.read_bytes())] == []


def test_journals_of_the_hosts_hold_no_secret(bench: Bench, told: Told) -> None:
    for host in bench.hosts:
        journal = bench.shell(host, "journalctl --no-pager -a -o export").stdout
        assert "Invoked with" in journal
        assert _places(journal) == []


def test_disks_of_the_hosts_hold_secrets_only_where_they_belong(bench: Bench, told: Told) -> None:
    found = {
        host.name: [f"/{p.relative_to(host.root)}" for p in _holding(host.root)]
        for host in bench.rack.hosts
    }
    stray = {host: [f for f in files if f not in HOMES] for host, files in found.items()}
    assert not any(stray.values()), stray
    assert "/etc/munge/munge.key" in found["gpu-1"]


def test_control_machine_keeps_no_copy(bench: Bench, told: Told) -> None:
    assert _holding(MEMORY) == []
    assert _holding(Path("/tmp")) == []
    assert _holding(Path.home() / ".ansible") == []


NETWORK, ADDRESS = "10.254.77.0/24", "10.254.77.10"


class Listener:
    """A host that only counts who calls; its address is this machine's own for a while."""

    def __init__(self) -> None:
        run(("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"))
        self._socket = socket.create_server((ADDRESS, 0))
        self._socket.settimeout(0.2)
        self.port: int = self._socket.getsockname()[1]
        self.calls = 0

    def take(self, seconds: float) -> int:
        """How many have called by then."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self.calls:
            with contextlib.suppress(TimeoutError):
                self._socket.accept()[0].close()
                self.calls += 1
        return self.calls

    def close(self) -> None:
        """No more."""
        self._socket.close()
        run(("ip", "address", "del", f"{ADDRESS}/32", "dev", "lo"))


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


@pytest.fixture
def site(tmp_path: Path, listener: Listener) -> Path:
    """A sound site of one host, which is the listener."""
    folder = tmp_path / "site"
    argv = (
        PROGRAM,
        "init",
        str(folder),
        "--count",
        "1",
        "-p",
        "hpc",
        "--network",
        NETWORK,
        "--with",
        "slurm",
        "--without",
        "kubernetes",
    )
    run(argv, check=False)  # it ends with what is still to do: the host's key
    file = folder / "site.yml"
    text = re.sub(
        r"^access:\n", f"access:\n  port: {listener.port}\n", file.read_text(), flags=re.M
    )
    assert f"address: {ADDRESS}" in text
    file.write_text(text)
    kind, key = (folder / "secrets" / "id_ed25519.pub").read_text().split()[:2]
    (folder / "known_hosts").write_text(f"[{ADDRESS}]:{listener.port} {kind} {key}\n")
    return folder


def test_sound_site_is_contacted(site: Path, listener: Listener) -> None:
    """Otherwise the next test could not fail."""
    argv = (PROGRAM, "plan", "--site", str(site))
    caller = threading.Thread(target=lambda: run(argv, check=False, timeout=60))
    caller.start()
    assert listener.take(60)
    caller.join()


@pytest.mark.parametrize("verb", [("plan",), ("deploy", "--yes"), ("health",), ("validate",)])
def test_malformed_site_is_refused_before_anything_is_contacted(
    site: Path, listener: Listener, verb: tuple[str, ...]
) -> None:
    with (site / "site.yml").open("a") as file:
        file.write("\nnonsense: true\n")
    done = run((PROGRAM, *verb, "--site", str(site)), check=False, timeout=60)
    assert done.returncode == 2
    assert "nonsense" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert listener.take(0.5) == 0
