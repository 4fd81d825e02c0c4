"""What runs on hosts opens files by one door, which judges whose place they lie in; what does not is named here, with its reason."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.lab.device_plugin import bundle as device_plugin_bundle
from appliance.lab.nvml import TOOL_SOURCES
from appliance.mig import bundle as mig_bundle

ROOT = Path(__file__).parents[2] / "appliance"
DOOR = {"probe/places.py", "probe/files.py"}
READS_HERE = {
    *(
        "probe/bundle.py",
        "watch/bundle.py",
        "limits/bundle.py",
        "mig/bundle.py",
        "backup/bundle.py",
    ),
    "support/bundle.py",
}
"""On the control machine: what is packed for the hosts."""
OF_OS = frozenset(
    {
        *("open", "fdopen", "listdir", "scandir", "walk", "fwalk", "stat", "lstat", "readlink"),
        *("getxattr", "listxattr", "setxattr", "access", "statvfs", "chmod", "chown", "lchown"),
        *("link", "symlink", "mkdir", "makedirs", "mknod", "mkfifo", "remove", "rename", "replace"),
        *("rmdir", "truncate", "unlink", "utime", "chdir"),
    }
)
OF_PATHS = frozenset(
    {
        *("exists", "lexists", "isdir", "isfile", "islink", "getsize", "getmtime", "realpath"),
        *("samefile", "ismount"),
    }
)
OF_PATH = frozenset(
    {
        *("read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "glob", "rglob"),
        *("is_file", "is_dir", "is_symlink", "resolve", "touch", "hardlink_to", "symlink_to"),
    }
)
MODULES = frozenset({"glob", "shutil", "pathlib", "tempfile", "fileinput", "io"})
ALLOWED = {
    "probe/ask.py tool access": "programs, in the system's folders",
    "probe/every_file.py __init__ scandir": "a descriptor",
    "probe/every_file.py _step stat": "by a descriptor, and no link is followed",
    "probe/every_file.py _folder open": "by a descriptor, and no link is followed",
    "probe/every_file.py _leads readlink": "below a descriptor",
    "probe/every_file.py _is_folder stat": "root's own links in places of root, and nothing is opened",
    "probe/every_file.py _privileged getxattr": "below a descriptor, and no link is followed",
    "probe/every_file.py _listed getxattr": "below a descriptor, and no link is followed",
    "probe/lease.py _now open": "/proc",
    "probe/lease.py _opened makedirs": "/var/lib/appliance is root's",
    "probe/lease.py _opened open": "/var/lib/appliance, by descriptor, and no link is followed",
    "probe/weekly.py main makedirs": "/var/lib/appliance is root's",
    "probe/weekly.py _write open": "/var/lib/appliance is root's",
    "probe/weekly.py _write replace": "/var/lib/appliance is root's",
    "probe/collectors/access.py _folders statvfs": "/tmp, /var/tmp, /dev/shm and /run, which are root's",
    "probe/collectors/access.py _folders ismount": "the same",
    "probe/collectors/access.py _largest scandir": "names in one of these, without links and mounts of people",
    "probe/collectors/nvme.py page open": "a drive in /dev, by the kernel's name",
    "probe/collectors/filesystems.py collect statvfs": "mount points of root's",
    "probe/collectors/filesystems.py _statvfs statvfs": "mount points of root's",
    "probe/collectors/obstacles.py _slurm statvfs": "mount points of root's",
    "probe/collectors/filesystems.py _entries scandir": "a descriptor",
    "stages/gpu/collect/xids.py collect stat": "/dev/kmsg",
    "stages/gpu/collect/xids.py _log open": "/dev/kmsg",
    "stages/gpu/collect/gpus.py pci_path realpath": "/sys",
    "stages/kubernetes/collect/offer.py import tempfile": "a new folder of mkdtemp(3)",
    "stages/kubernetes/collect/offer.py import shutil": "the same folder",
    "stages/kubernetes/collect/offer.py _apt makedirs": "the same folder",
    "stages/kubernetes/collect/offer.py _apt open": "the same folder",
    "stages/kubernetes/collect/offer.py names fdopen": "a descriptor",
    "stages/slurm/collect/containers.py _free statvfs": "enroot's folders, which are root's",
    "support/bounded.py _log open": "below a descriptor, and no link is followed",
    "support/collect.py import tempfile": "a new folder of mkdtemp(3) in /run",
    "support/collect.py import shutil": "the same folder",
    "support/collect.py _with_written listdir": "the same folder",
    "support/collect.py _with_written open": "the same folder",
    "watch/command.py settings open": "/etc/appliance",
    "watch/lock.py _opened makedirs": "/run/appliance",
    "watch/lock.py _opened open": "its lock in /run/appliance/private, which is root's",
    "watch/rules.py _devices exists": "/dev",
    "watch/scontrol.py _program access": "programs, in the system's folders",
    "watch/verdict.py last open": "/run/appliance",
    "watch/verdict.py keep makedirs": "/run/appliance",
    "watch/verdict.py keep isdir": "the exporter's folder, of the role",
    "watch/verdict.py write open": "/run/appliance, and the exporter's folder, of the role",
    "watch/verdict.py write unlink": "/run/appliance, and the exporter's folder, of the role",
    "watch/verdict.py write replace": "/run/appliance, and the exporter's folder, of the role",
    "watch/programs.py causes access": "/etc/slurm/health.d",
}


def carried() -> list[Path]:
    """The files that hosts are sent or keep, but for the programs that change GPUs and end work."""
    stages = [
        path
        for stage in sorted((ROOT / "stages").iterdir())
        for path in (*stage.glob("collect.py"), *stage.glob("collect/*.py"))
    ]
    rooms = ("probe", "watch", "support")
    own = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    skipped = DOOR | READS_HERE
    return [p for p in (*own, *stages) if str(p.relative_to(ROOT)) not in skipped]


def operations(source: str) -> Iterator[tuple[str, str]]:
    """Function and operation of each call that goes to a file by its name."""
    tree = ast.parse(source)
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        for node in ast.walk(function):
            name = _operation(node)
            if name:
                yield getattr(function, "name", "lambda"), name
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = {alias.name.partition(".")[0] for alias in node.names} & MODULES
            yield from (("import", name) for name in sorted(found))
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module.partition(".")[0] in MODULES:
                yield "import", node.module
            if node.module in {"os", "os.path"}:
                yield "import", f"from {node.module}"


def _operation(node: ast.AST) -> str:
    """Also one that is only handed on, as os.stat in map(os.stat, ...)."""
    if isinstance(node, ast.Name) and node.id == "open":
        return "open"
    if not isinstance(node, ast.Attribute):
        return ""
    of_os = isinstance(node.value, ast.Name) and node.value.id == "os"
    of_path = isinstance(node.value, ast.Attribute) and node.value.attr == "path"
    if (of_os and node.attr in OF_OS) or (of_path and node.attr in OF_PATHS):
        return node.attr
    return node.attr if node.attr in OF_PATH else ""


def found(path: Path) -> set[str]:
    """As the list of what is allowed names them."""
    name = path.relative_to(ROOT)
    return {f"{name} {where} {what}" for where, what in operations(path.read_text())}


@pytest.mark.parametrize("path", carried(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_of_a_host_is_opened_but_by_its_door(path: Path) -> None:
    assert found(path) - ALLOWED.keys() == set()


def test_nothing_is_allowed_that_nobody_does() -> None:
    assert ALLOWED.keys() - {one for path in carried() for one in found(path)} == set()


PACKED = {
    "mig": mig_bundle.PROBE,
    "device plugin of the rack": device_plugin_bundle.PROBE,
    "nvidia-smi of the rack": tuple(name.rpartition("/")[2] for name in TOOL_SOURCES),
}


@pytest.mark.parametrize("names", PACKED.values(), ids=PACKED)
def test_a_program_that_takes_some_of_the_probe_takes_what_these_need(
    names: tuple[str, ...],
) -> None:
    files = [ROOT / "probe" / name for name in names]
    needed = {
        f"{module}.py"
        for file in files
        if file.exists()
        for module in re.findall(r"^from appliance\.probe import (.+)$", file.read_text(), re.M)
        for module in module.split(", ")
    }
    assert needed - set(names) == set()


@pytest.mark.parametrize(
    "line",
    [
        "open(p)",
        "os.open(p, 0)",
        "os.walk(p)",
        "list(map(os.lstat, p))",
        "os.path.realpath(p)",
        "p.read_text()",
        "import glob",
        "from os import scandir",
        "from shutil import copy",
        "import pathlib",
    ],
)
def test_every_way_around_it_is_seen(line: str) -> None:
    assert list(operations(f"def f(p):\n    {line}\n"))
