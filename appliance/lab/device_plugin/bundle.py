"""Packs the program for the rack's hosts, and gives the paths of its libraries there."""

from pathlib import Path

from appliance.probe import bundle

HERE = Path(__file__).parent
PROGRAM = "usr/local/sbin/appliance-lab-device-plugin"
UNIT = "appliance-lab-device-plugin.service"
LIBRARIES = "opt/appliance/lab/libraries"
"""gRPC for Python with its dependencies, unpacked from Debian's packages, not from the host's own."""
SHARED = f"/{LIBRARIES}/usr/lib/x86_64-linux-gnu"
PROBE = (
    "__init__.py",
    "files.py",
    "lines.py",
    "mig.py",
    "mounts.py",
    "nvml.py",
    "places.py",
    "problems.py",
)
START = (
    f"import sys\nsys.path.append('/{LIBRARIES}/usr/lib/python3/dist-packages')\n"
    "from appliance.lab.device_plugin.command import main\nmain()\n"
)


def executable() -> bytes:
    """The program's file, the same bytes for the same sources."""
    own = [path for path in sorted(HERE.glob("*.py")) if path.name != "bundle.py"]
    room = HERE.parent
    files = [room / "__init__.py", *own, *(room.parent / "probe" / name for name in PROBE)]
    packed = [(f"appliance/{f.relative_to(room.parent)}", f.read_bytes()) for f in files]
    return bundle.packed(
        [*packed, ("__main__.py", START.encode())], before=b"#!/usr/bin/python3 -EsB\n"
    )


def unit() -> str:
    """Its unit."""
    return (
        "[Unit]\nDescription=Device plugin for the simulated GPUs (appliance lab), of a site that brings its own\n"
        "StartLimitIntervalSec=0\n\n[Service]\n"
        f"Environment=LD_LIBRARY_PATH={SHARED}\n"
        f"ExecStart=/{PROGRAM}\nRestart=always\nRestartSec=5\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )
