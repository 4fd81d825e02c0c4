"""The rack's simulated fabric on the machine: start it, stop it, speak to its console."""

import fcntl
import os
import sys
import time
from pathlib import Path

from appliance.adapters.process import spawn
from appliance.errors import ApplianceError
from appliance.lab import netlist, processes
from appliance.lab.recipe import LIB_FOLDER
from appliance.lab.spec import SIMULATOR_LAYER, Rack

SECONDS = 10.0
PROMPT = b"sim> "
PARTS = ("simulator", "follower")

# The console is a named pipe, opened both ways so that it never ends.
SIMULATOR = 'exec "$@" 0<> "$LAB_CONSOLE"'


def start(rack: Rack) -> None:
    """Start the simulator and the follower, unless they run; returns when the console answers."""
    folder = _folder(rack)
    folder.mkdir(parents=True, exist_ok=True)
    if not _runs(rack, "simulator"):
        (folder / "netlist").write_text(netlist.render(rack), encoding="utf-8")
        if not (folder / "console").exists():
            os.mkfifo(folder / "console", 0o600)
        (folder / "simulator.log").write_bytes(b"")
        _spawn(rack, "simulator", ("sh", "-c", SIMULATOR, "ibsim", *_simulator(rack)))
        _answer(rack, time.monotonic() + SECONDS)
    if not _runs(rack, "follower"):
        follower = (sys.executable, "-P", "-m", "appliance.lab.fabric_follower", rack.name)
        _spawn(rack, "follower", follower)


def stop(rack: Rack) -> None:
    """End simulator and follower."""
    for part in PARTS:
        pid = processes.recall(_folder(rack) / f"{part}.json")
        if pid is not None:
            processes.kill(pid)


def is_running(rack: Rack) -> bool:
    """Whether both the simulator and what makes the hosts follow it live."""
    return all(_runs(rack, part) for part in PARTS)


def ask(rack: Rack, line: str) -> str:
    """Send one command to ibsim's console and return its output. Raises ApplianceError."""
    folder = _folder(rack)
    if not _runs(rack, "simulator"):
        raise ApplianceError(
            f"the fabric of rack {rack.name} is not running",
            f"appliance lab up --name {rack.name} starts it again",
        )
    with (folder / "lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The simulator appends, so the log may be cut back to nothing before every command.
        os.truncate(folder / "simulator.log", 0)
        with (folder / "console").open("w", encoding="utf-8") as console:
            console.write(f"{line}\n")
        return _answer(rack, time.monotonic() + SECONDS)


def _answer(rack: Rack, deadline: float) -> str:
    log = _folder(rack) / "simulator.log"
    while True:
        # Warnings of the simulator may follow the prompt at any time.
        said, prompt, _ = log.read_bytes().partition(PROMPT)
        if prompt:
            return said.decode(errors="replace")
        if time.monotonic() > deadline or not _runs(rack, "simulator"):
            raise ApplianceError("the simulated fabric does not answer", f"see {log}")
        time.sleep(0.02)


def _simulator(rack: Rack) -> tuple[str, ...]:
    """ibsim from the image, with the image's own loader, so that the machine needs no package for it."""
    base = Path(rack.layers["base"])
    own = Path(rack.layers.get(SIMULATOR_LAYER, base))
    return (
        str(base / "lib64/ld-linux-x86-64.so.2"),
        "--library-path",
        f"{own / LIB_FOLDER}:{base / LIB_FOLDER}",
        str(own / "usr/bin/ibsim"),
        "--start",
        "--remote",
        "--listen",
        str(rack.fabric_port),
        str(_folder(rack) / "netlist"),
    )


def _spawn(rack: Rack, part: str, argv: tuple[str, ...]) -> None:
    folder = _folder(rack)
    started = spawn(
        argv,
        env={
            processes.MARK: str(rack.state_dir),
            "LAB_CONSOLE": str(folder / "console"),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
        log=folder / f"{part}.log",
    )
    processes.remember(started, folder / f"{part}.json")


def _runs(rack: Rack, part: str) -> bool:
    return processes.recall(_folder(rack) / f"{part}.json") is not None


def _folder(rack: Rack) -> Path:
    return rack.state_dir / "fabric"
