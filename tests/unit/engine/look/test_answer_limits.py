"""An answer that holds more than a host can have: refused before it is judged, and a large honest one is not."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from appliance.adapters.process import Completed
from appliance.engine.look.answer_limits import (
    BOUNDS,
    LONGEST,
    LONGEST_BESIDE,
    MOST,
    MOST_IN_ALL,
    SMALL,
    excess,
)
from appliance.engine.look.gather import gather
from tests.support.engine_fakes import FakeHosts
from tests.support.engine_session import hosts, recorder, session
from tests.support.facts import facts_of

__all__ = ["hosts", "recorder", "session"]

GPU = {"index": 0, "uuid": "GPU-1", "name": "A100", "bus_id": "0", "memory": 1}
PORT = {"device": "m", "port": 1, "state": "A", "physical": "L", "rate": 1, "link_layer": "I"}
LINK = {"node": "a", "port": 1, "peer": "b", "peer_port": 2, "width": "4x", "speed": "HDR"}
NODE = {"guid": "0x1", "description": "gpu-1 mlx5_0", "ports": 1}


def answered(hosts: FakeHosts, text: str, **request: object) -> str:
    """Why gpu-1 gave no facts; "" where it did."""

    def answer(host: str, argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 0, text, "")

    hosts.answer = answer
    found = gather(hosts, {"gpu-1": request})
    return found.unanswered["gpu-1"].cause if found.unanswered else ""


def facts(**told: Any) -> dict[str, Any]:
    """A sound answer with these areas, and so much of what is only shown that it is not small."""
    document: dict[str, Any] = json.loads(facts_of("gpu-1").model_dump_json())
    return {**document, "user": "x" * SMALL, **told}


MADE_UP: dict[str, dict[str, Any]] = {
    "gpus.devices": {"gpus": {"driver": "1", "nvml": "1", "devices": 65 * [GPU]}},
    "ports": {"ports": 513 * [PORT]},
    "ports.pci_path": {"ports": [{**PORT, "pci_path": 65 * ["a"]}]},
    "modules": {"modules": {f"m{n}": {"version": ""} for n in range(1025)}},
    "interfaces.addresses": {
        "interfaces": [{"name": "e", "mtu": 1, "state": "up", "addresses": 257 * ["10.0.0.1/8"]}]
    },
    "packages": {"packages": {f"p{n}": "1" for n in range(MOST + 1)}},
    "posture.things": {"posture": {"things": {"account": {f"a{n}": {} for n in range(MOST + 1)}}}},
    "receipts": {"receipts": {f"s{n}": {} for n in range(65)}},
    "receipts.inputs": {"receipts": {"base": {"inputs": {f"i{n}": "" for n in range(1025)}}}},
    "gpus.devices.mig": {"gpus": {"devices": [{**GPU, "mig": 65 * [{}]}]}},
}


@pytest.mark.parametrize("place", MADE_UP)
def test_more_than_a_host_can_have_is_refused_in_one_line(place: str, hosts: FakeHosts) -> None:
    said = answered(hosts, json.dumps(facts(**MADE_UP[place])))
    assert said.startswith("its answer was rejected: it has ")
    assert f" of {place}; {BOUNDS.get(place, MOST)} is the limit" in said


def test_many_lists_within_their_bounds_are_too_much_together(hosts: FakeHosts) -> None:
    things: dict[str, dict[str, dict[str, str]]] = {
        f"k{n}": {f"a{m}": {} for m in range(MOST)} for n in range(MOST_IN_ALL // MOST + 1)
    }
    text = json.dumps(facts(posture={"things": things}))
    assert "members in total" in answered(hosts, text, areas=["posture"])


def test_an_answer_that_is_too_long_is_not_even_read(hosts: FakeHosts) -> None:
    assert "longer than 4 MiB" in answered(hosts, " " * (LONGEST + 1))
    assert "longer than 16 MiB" in answered(hosts, " " * (LONGEST_BESIDE + 1), areas=["posture"])
    assert "longer than" not in answered(hosts, " " * (LONGEST + 1), areas=["posture"])


def test_a_large_answer_of_a_host_with_kubernetes_is_read(hosts: FakeHosts) -> None:
    words = dict.fromkeys(("fingerprint", "written", "run", "appliance"), "")
    inputs = {f"kubernetes_{n}": "0" * 24 for n in range(80)}
    receipt = {**words, "stage": "kubernetes", "inputs": inputs, "resources": 1, "drift": []}
    text = json.dumps(facts(receipts={"kubernetes": receipt}))
    assert answered(hosts, text, areas=["posture"]) == ""


def test_a_control_host_of_a_fabric_of_4000_cables_is_read(hosts: FakeHosts) -> None:
    fabric = {"hcas": 4000 * [NODE], "switches": 500 * [NODE], "links": 8000 * [LINK]}
    text = json.dumps({**facts(topology=fabric), "user": "root"})
    assert SMALL < 3 * len(text) < 2 * LONGEST
    assert answered(hosts, text) == ""


def test_large_hosts_are_within_bounds() -> None:
    gpus = [{**GPU, "mig": 7 * [{}], "pci_path": 8 * ["a"]} for _ in range(16)]
    large: dict[str, Any] = {
        "gpus": {"driver": "1", "nvml": "1", "devices": gpus},
        "ports": 32 * [{**PORT, "counters": {f"c{n}": 0 for n in range(80)}}],
        "interfaces": [{"name": f"veth{n}", "addresses": []} for n in range(1000)],
        "posture": {"things": {f"k{n}": {f"t{m}": {} for m in range(4000)} for n in range(22)}},
    }
    assert excess(facts(**large)) == ""
