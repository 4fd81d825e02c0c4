"""Processors, memory and NUMA nodes as the kernel counts them."""

from __future__ import annotations

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.lines import lines_of
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

UNKNOWN_CPU = {"model": "", "sockets": 0, "cores": 0, "threads": 0}
UNKNOWN_MEMORY = {"total": 0, "available": 0}
CPUS = "/sys/devices/system/cpu"
NODES = "/sys/devices/system/node"


def collect(ask: Ask) -> Facts:
    """The area ``cpu``."""
    return {"cpu": _cpu(ask), "memory": _memory(ask), "numa": _numa(ask)}


def _cpu(ask: Ask) -> dict[str, object]:
    """Count cores and sockets by their sets of siblings: one read per core, not per thread."""
    online = expand(files.read(ask.path(CPUS + "/online")))
    cores, sockets = 0, 0
    in_core: set[int] = set()
    in_socket: set[int] = set()
    for cpu in online:
        at = ask.path(f"{CPUS}/cpu{cpu}/topology/")
        if cpu not in in_core:
            cores += 1
            in_core.update(expand(files.text(at + "thread_siblings_list", str(cpu))))
        if cpu not in in_socket:
            sockets += 1
            in_socket.update(expand(files.text(at + "core_siblings_list", str(cpu))))
    return {"model": _model(ask), "sockets": sockets, "cores": cores, "threads": len(online)}


def _model(ask: Ask) -> str:
    """Return the name of the first processor, or its part number on Arm, whose kernel prints no name."""
    fields: dict[str, str] = {}
    for line in lines_of(files.read(ask.path("/proc/cpuinfo"), 4096)):
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    part = fields.get("CPU implementer", "") + " " + fields.get("CPU part", "")
    return fields.get("model name") or part.strip()


def _memory(ask: Ask) -> dict[str, int]:
    sizes = meminfo(files.read(ask.path("/proc/meminfo")))
    pages = files.number(ask.path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"))
    if "MemTotal" not in sizes:
        raise Unreadable("/proc/meminfo has no MemTotal")
    available = sizes.get("MemAvailable", sizes.get("MemFree", 0))
    return {"total": sizes["MemTotal"], "available": available, "hugepages_2m": pages or 0}


def _numa(ask: Ask) -> list[dict[str, object]]:
    nodes = []
    for number in expand(files.text(ask.path(NODES + "/online"))):
        at = ask.path(f"{NODES}/node{number}/")
        sizes = meminfo(files.text(at + "meminfo"))
        nodes.append(
            {
                "node": number,
                "cpus": files.text(at + "cpulist"),
                "memory": sizes.get(f"Node {number} MemTotal", 0),
            }
        )
    return nodes


def meminfo(text: str) -> dict[str, int]:
    """Bytes by name from a meminfo file of the machine or of a node."""
    found = {}
    for line in lines_of(text):
        name, _, value = line.partition(":")
        words = value.split()
        if len(words) == 2 and words[1] == "kB":
            found[name.strip()] = int(words[0]) * 1024
    return found


def expand(cpulist: str) -> list[int]:
    """Return the numbers of a kernel list such as ``0-3,8``."""
    numbers: list[int] = []
    for part in filter(None, cpulist.strip().split(",")):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers
