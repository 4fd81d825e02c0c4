"""The fabric as ibnetdiscover sees it from this host: ends, switches and cables."""

from __future__ import annotations

import re

from appliance.probe.ask import Ask
from appliance.probe.lines import lines_of
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

NODE = re.compile(r'(Switch|Ca|Rt)\s+(\d+)\s+"([^"]+)"\s+# "([^"]*)"')
LINE = re.compile(r'\[(\d+)\](?:\[ext \d+\])?(?:\([0-9a-f]+\))?\s+"([^"]+)"\[(\d+)\].*\s(\S+)$')
SPEED = re.compile(r"^(\d+x)(\w+)$")
INSIDE = "Aggregation Node"
"""Internal port for SHARP in Quantum switches: neither an adapter nor a cable."""


def collect(ask: Ask) -> Facts:
    """The area ``topology``. Raises Unreadable."""
    return {"topology": parse(ask.run(["ibnetdiscover"], 25.0))}


def parse(said: str) -> Facts:
    """Return nodes by kind, and each cable once. Raises Unreadable if there is no node."""
    nodes: dict[str, tuple[str, Facts]] = {}
    ends: list[tuple[str, int, str, int, str]] = []
    current = ""
    for line in lines_of(said):
        node = NODE.match(line)
        end = LINE.match(line.rstrip()) if current else None
        if node:
            current = "" if INSIDE in node.group(4) else node.group(3)
            if current:
                nodes[current] = node.group(1), _node(node)
        elif end:
            ends.append((current, int(end.group(1)), end.group(2), int(end.group(3)), end.group(4)))
    if not nodes:
        raise Unreadable(f"ibnetdiscover: unexpected answer: {said.strip()[:80]}")
    _make_unique([node for _, node in nodes.values()])
    return {
        "hcas": [node for kind, node in nodes.values() if kind == "Ca"],
        "switches": [node for kind, node in nodes.values() if kind == "Switch"],
        "links": _links(nodes, ends),
    }


def _node(found: re.Match[str]) -> Facts:
    return {
        "guid": "0x" + found.group(3).rpartition("-")[2],
        "description": found.group(4),
        "ports": int(found.group(2)),
    }


def _make_unique(nodes: list[Facts]) -> None:
    """Append the GUID to names of several switches, because unnamed switches have their model's name."""
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node["description"]] = counts.get(node["description"], 0) + 1
    for node in nodes:
        if counts[node["description"]] > 1 or not node["description"]:
            node["description"] = f"{node['description']} {node['guid']}".strip()


def _links(
    nodes: dict[str, tuple[str, Facts]], ends: list[tuple[str, int, str, int, str]]
) -> list[Facts]:
    """Return the cables; each is printed at both ends, and the first line is kept."""
    seen: set[frozenset[tuple[str, int]]] = set()
    links = []
    for node, port, peer, peer_port, speed in ends:
        cable = frozenset({(node, port), (peer, peer_port)})
        if cable in seen or peer not in nodes:
            continue
        seen.add(cable)
        lanes = SPEED.match(speed)
        links.append(
            {
                "node": nodes[node][1]["description"],
                "port": port,
                "peer": nodes[peer][1]["description"],
                "peer_port": peer_port,
                "width": lanes.group(1) if lanes else "",
                "speed": lanes.group(2) if lanes else "",
            }
        )
    return links
