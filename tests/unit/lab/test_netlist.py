"""The simulated fabric is wired as a rail-optimised cluster is."""

import re

from appliance.lab.netlist import hcas, render
from appliance.lab.spec import RackSpec, numbered

RACK = numbered(RackSpec(hosts=3), 1, {})


def test_head_has_one_hca_and_gpu_hosts_have_eight() -> None:
    found = [hca.description for hca in hcas(RACK)]
    assert found[0] == "head mlx5_0"
    assert len(found) == 1 + 8 + 8
    assert found[-1] == "gpu-2 mlx5_7"


def test_each_device_is_on_its_own_rail() -> None:
    assert all(hca.rail == int(hca.device[-1]) + 1 for hca in hcas(RACK))


def test_no_two_nodes_share_a_guid() -> None:
    text = render(numbered(RackSpec(hosts=32), 1, {}))
    guids = re.findall(r"^(?:ca|switch)guid=(0x[0-9a-f]+)", text, re.M)
    assert len(guids) == len(set(guids)) == 1 + 31 * 8 + 8 + 2


def test_every_link_is_written_from_both_ends() -> None:
    ends: list[frozenset[tuple[str, str]]] = []
    node = ""
    for line in render(RACK).splitlines():
        if start := re.match(r'(?:Ca|Switch) \d+ "([^"]+)"', line):
            node = start[1]
        elif link := re.match(r'\[(\d+)\](?:\([0-9a-f]+\))? "([^"]+)"\[(\d+)\]', line):
            ends.append(frozenset({(node, link[1]), (link[2], link[3])}))
    assert len(ends) == 2 * (17 + 8 * 2)
    assert all(ends.count(end) == 2 for end in ends)


def test_links_run_at_hdr_because_the_simulator_would_fall_back_to_sdr() -> None:
    links = [line for line in render(RACK).splitlines() if line.startswith(("[", "@["))]
    assert links
    assert all(line.endswith("lid 0 4xHDR") for line in links)
