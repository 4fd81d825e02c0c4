"""Cabling and links: fabrics as ibnetdiscover prints them, with cables swapped, doubled, lost and slow."""

from dataclasses import replace
from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.models.shared_facts import SharedFacts
from appliance.stages.fabric.cabling import number
from appliance.stages.fabric.checks.cabling import compare, judge_cabling
from appliance.stages.fabric.checks.links import judge_links
from appliance.stages.fabric.checks.subnet import judge_topology
from appliance.stages.fabric.collect import topology
from appliance.stages.fabric.facts import Topology
from tests.support.fabric_cables import RAILS, Fabric, guid, leaf
from tests.support.fabric_facts import facts


def cabling(view: View) -> list[CheckResult]:
    return [one.of("fabric.cabling") for one in judge_cabling(view)]


def links(view: View) -> list[CheckResult]:
    return [one.of("fabric.links") for one in judge_links(view)]


def listed(fabric: Fabric, **rest: Any) -> dict[str, Any]:
    """The list of a good fabric's cables."""
    cables = [
        {"host": f"gpu-{h}", "hca": f"mlx5_{r}", "switch": leaf(g, i), "port": p}
        for (h, r), (g, i, p) in fabric.at.items()
    ]
    return {"cabling": "listed", "cables": cables, **rest}


@pytest.mark.parametrize(("hosts", "named"), [(4, True), (4, False), (64, False), (512, True)])
def test_a_rail_optimised_fabric_of_any_size_is_good(hosts: int, named: bool) -> None:
    fabric = Fabric(hosts, named=named)
    view = fabric.view()
    (result,) = cabling(view)
    assert (result.status, result.value) == (Status.PASS, hosts * RAILS)
    assert result.evidence == f"{hosts} hosts on {fabric.groups * RAILS} leaves"
    assert [r.status for r in judge_links(view)] == [Status.PASS]


@pytest.mark.parametrize("hosts", [2, 64])
@pytest.mark.parametrize("named", [True, False])
def test_two_swapped_cables_are_both_named_by_both_ends(hosts: int, named: bool) -> None:
    fabric = Fabric(hosts, named=named)
    fabric.swap((1, 2), (1, 5))
    (result,) = cabling(fabric.view())
    assert (result.status, result.target) == (Status.FAIL, "gpu-1/mlx5_2")
    assert result.cause == (
        "two cables are swapped: mlx5_2 of gpu-1 is in port 2 of leaf-1-6, "
        "mlx5_5 of gpu-1 is in port 2 of leaf-1-3"
    )
    assert (
        "mlx5_2 of gpu-1 goes to port 2 of leaf-1-3, mlx5_5 of gpu-1 to port 2 of leaf-1-6"
        in result.fix
    )


def test_cables_swapped_between_groups_of_hosts_are_found() -> None:
    fabric = Fabric(64)
    fabric.swap((3, 4), (33, 4))
    (result,) = cabling(fabric.view())
    assert "mlx5_4 of gpu-3 is in port 14 of leaf-2-5" in result.cause
    assert "mlx5_4 of gpu-33 is in port 4 of leaf-1-5" in result.cause


def test_by_the_rule_ports_of_a_leaf_may_be_exchanged_but_not_by_the_list() -> None:
    fabric = Fabric(4)
    as_listed = listed(fabric)
    fabric.swap((0, 2), (1, 2))
    assert cabling(fabric.view())[0].status is Status.PASS
    (result,) = cabling(fabric.view(as_listed))
    assert "mlx5_2 of gpu-0 is in port 2 of leaf-1-3, mlx5_2 of gpu-1 is in port 1" in result.cause
    assert "mlx5_2 of gpu-0 goes to port 1 of leaf-1-3" in result.fix
    assert result.limit_source == "site.fabric.cables"


def test_two_cables_of_a_host_on_one_leaf_are_said_to_be_doubled() -> None:
    fabric = Fabric(4)
    fabric.at[1, 2] = (0, 5, 30)
    (result,) = cabling(fabric.view())
    assert result.target == "gpu-1/mlx5_2"
    assert "belongs in leaf-1-3; leaf-1-6 already has mlx5_5 of gpu-1" in result.cause
    assert result.fix == "move that cable from port 30 of leaf-1-6 to a free port of leaf-1-3"


@pytest.mark.parametrize(
    ("port", "said"),
    [
        ({}, "is not found by discovery (fabric.topology)"),
        ({"state": "DOWN", "physical": "Polling"}, "has no link (fabric.state)"),
    ],
)
def test_a_lost_cable_is_another_checks_failure_and_its_place_is_said(
    port: dict[str, Any], said: str
) -> None:
    fabric = Fabric(4)
    fabric.down.add("leaf-1-3:2")
    changed = fabric.host(1, mlx5_2=port)
    (by_rule,) = cabling(fabric.view(None, changed))
    (by_list,) = cabling(fabric.view(listed(fabric), changed))
    assert (by_rule.status, by_rule.target) == (Status.NOT_ASSESSED, "gpu-1/mlx5_2")
    assert not by_rule.required
    assert by_rule.cause == f"mlx5_2 of gpu-1 {said}; its cable belongs in leaf-1-3"
    assert by_list.cause == f"mlx5_2 of gpu-1 {said}; its cable belongs in port 2 of leaf-1-3"


def test_a_listed_adapter_no_host_has_is_a_mistake_in_the_list() -> None:
    fabric = Fabric(4)
    stated = listed(fabric)
    stated["cables"].append({"host": "gpu-1", "hca": "mlx5_9", "switch": "leaf-1-1", "port": 30})
    (result,) = cabling(fabric.view(stated))
    assert (result.status, result.target) == (Status.FAIL, "gpu-1/mlx5_9")
    assert "the host has no such adapter" in result.cause


def test_a_listed_adapter_that_is_missing_is_the_ports_failure() -> None:
    fabric = Fabric(4)
    stated = listed(fabric)
    fabric.down.add("leaf-1-3:2")
    seven = fabric.host(1)
    seven = seven.model_copy(
        update={"ports": tuple(p for p in seven.ports if p.device != "mlx5_2")}
    )
    (result,) = cabling(fabric.view(stated, seven))
    assert result.status is Status.NOT_ASSESSED
    assert "is missing (fabric.ports)" in result.cause


def test_ports_of_another_kind_do_not_stand_in_for_a_missing_adapter() -> None:
    fabric = Fabric(4)
    stated = listed(fabric)
    fabric.down.add("leaf-1-3:2")
    host = fabric.host(1, mlx5_2={"device": "mlx5_bond_0", "link_layer": "Ethernet"})
    (result,) = cabling(fabric.view(stated, host))
    assert result.status is Status.NOT_ASSESSED
    assert "is missing (fabric.ports)" in result.cause


def test_an_adapter_that_is_not_there_has_no_cable_to_miss() -> None:
    fabric = Fabric(4)
    fabric.down.add("leaf-1-3:2")
    seven = fabric.host(1)
    seven = seven.model_copy(
        update={"ports": tuple(p for p in seven.ports if p.device != "mlx5_2")}
    )
    assert cabling(fabric.view(None, seven))[0].status is Status.PASS


def test_a_cable_the_list_does_not_know_is_unexpected() -> None:
    fabric = Fabric(4)
    short = listed(fabric)
    short["cables"] = short["cables"][1:]
    (result,) = cabling(fabric.view(short))
    assert (result.status, result.target) == (Status.FAIL, "gpu-0/mlx5_0")
    assert "lists no cable for it" in result.cause


@pytest.mark.parametrize("by_list", [True, False])
def test_a_leaf_that_is_gone_is_one_finding_not_one_per_host(by_list: bool) -> None:
    fabric = Fabric(16)
    stated = listed(fabric) if by_list else None
    fabric.at = {key: place for key, place in fabric.at.items() if key[1] != 2}
    lines = fabric.ibnetdiscover().split("\n\n")
    seen = "\n\n".join(b for b in lines if '# "leaf-1-3" port 0' not in b)
    found = Topology.model_validate(topology.parse(seen))
    (result,) = cabling(fabric.view(stated, facts("head", topology=found)))
    assert (result.target, result.limit) == ("cluster", 16)
    assert ("leaf-1-3" if by_list else "the leaf of mlx5_2") in result.cause


def test_a_missing_link_between_switches_is_named_by_both() -> None:
    fabric = Fabric(64)
    fabric.down.add("leaf-2-4:up")
    (result,) = cabling(fabric.view())
    assert result.cause == "0 of 1 cables between leaf-2-4 and spine-1 are up"


def test_the_ends_of_sharp_inside_leaves_and_spines_make_no_spine_a_leaf() -> None:
    fabric = Fabric(64, sharp=True)
    assert cabling(fabric.view())[0].status is Status.PASS
    assert len(fabric.topology().hcas) == 64 * RAILS
    fabric.down.add("leaf-2-4:up")
    (result,) = cabling(fabric.view())
    assert result.cause == "0 of 1 cables between leaf-2-4 and spine-1 are up"


def test_adapters_openibd_describes_by_a_count_of_its_own_are_known_by_guid() -> None:
    fabric = Fabric(4, words="gpu-{host} HCA-{rail}")
    seen = fabric.view()
    assert [r.status for r in cabling(seen)] == [Status.PASS]
    assert [r.status for r in judge_topology(seen)] == [Status.PASS]
    fabric.swap((0, 1), (2, 5))
    assert cabling(fabric.view())[0].target == "gpu-0/mlx5_1"


def test_stated_trunks_are_counted_and_switches_may_be_named_by_guid() -> None:
    fabric = Fabric(4)
    own = f"0x{guid('leaf-1-4')[2:]}"
    trunks = [{"switch": own, "peer": "spine-1", "cables": 2}]
    (result,) = cabling(fabric.view({"cabling": "rail-optimised", "trunks": trunks}))
    assert result.cause == "1 of 2 cables between leaf-1-4 and spine-1 are up"
    assert result.limit_source == "site.fabric.trunks"


def test_unstated_cabling_is_not_assessed_and_nobody_minds() -> None:
    (result,) = cabling(Fabric(4).view({}))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)


def test_without_discovery_cabling_and_links_are_not_assessed() -> None:
    mute = facts("head", topology=None, errors={"topology": "ibnetdiscover: no umad device"})
    view = Fabric(4).view(None, mute)
    for (result,) in (cabling(view), links(view)):
        assert (result.status, result.required) == (Status.NOT_ASSESSED, True)
        assert "no umad device" in result.cause


def test_discovery_of_foreign_adapters_only_is_no_pass() -> None:
    view = Fabric(4).view(None, facts("head", topology=Topology()))
    assert Status.PASS not in {r.status for r in [*cabling(view), *links(view)]}


def test_a_silent_host_that_discovery_does_not_meet_is_not_assessed() -> None:
    fabric = Fabric(4)
    fabric.down.add("leaf-1-3:2")
    view = fabric.view(listed(fabric))
    known = {name: found for name, found in view.facts.items() if name != "gpu-1"}
    (result,) = cabling(View(view.profile, view.site, known))
    assert result.status is Status.NOT_ASSESSED
    assert "gpu-1 did not answer" in result.cause


@pytest.mark.parametrize(
    ("speed", "what", "value"),
    [
        ("2xHDR", "half the width: 2x HDR", 100),
        ("4xEDR", "half the speed: 4x EDR", 100),
        ("1xSDR", "a reduced width and speed: 1x SDR", 2.5),
    ],
)
def test_a_slow_cable_is_named_by_both_ends(speed: str, what: str, value: float) -> None:
    fabric = Fabric(4, speed={"leaf-1-3:2": speed})
    (result,) = links(fabric.view())
    assert (result.status, result.target, result.value) == (Status.FAIL, "gpu-1/mlx5_2", value)
    assert "leaf-1-3 port 2 and gpu-1 mlx5_2 port 1" in result.cause
    assert what in result.cause


def test_a_slow_cable_between_switches_is_the_clusters() -> None:
    (result,) = links(Fabric(4, speed={"leaf-1-3:up": "2xHDR"}).view())
    assert (result.status, result.target) == (Status.FAIL, "cluster")
    assert "leaf-1-3 port 40 and spine-1 port 3" in result.cause


def test_a_rate_nobody_knows_is_not_assessed() -> None:
    (result,) = links(Fabric(4, speed={"leaf-1-3:2": "4xZDR"}).view())
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)


def test_both_ways_of_stating_a_fabric_agree() -> None:
    fabric = Fabric(64)
    by_list = fabric.view(listed(fabric))
    found = fabric.topology()
    assert compare(by_list, found).found == compare(fabric.view(), found).found
    assert [r.status for r in cabling(by_list)] == [Status.PASS]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("lie", ["name", "ports", "both"])
def test_a_host_that_gives_itself_out_as_another_moves_no_cable_of_that_one(
    named: bool, lie: str
) -> None:
    fabric = Fabric(4, named=named)
    honest = {f"gpu-{n}": fabric.host(n) for n in range(4)}
    liar, victim = honest["gpu-3"], honest["gpu-1"]
    if lie != "ports":
        liar = liar.model_copy(update={"os": victim.os})
    if lie != "name":
        liar = liar.model_copy(update={"ports": victim.ports})
    said = replace(fabric.view(None, liar), standing=SharedFacts(honest))
    found = compare(said, fabric.topology()).found
    assert len([plug for plug in found if plug.host == "gpu-1"]) == RAILS
    assert {r.target.partition("/")[0] for r in cabling(said) if r.status is Status.FAIL} <= {
        "gpu-3"
    }


def test_ports_that_two_hosts_claim_and_neither_was_accepted_with_are_neithers() -> None:
    fabric = Fabric(4, named=False)
    liar = fabric.host(3).model_copy(update={"ports": fabric.host(1).ports})
    found = compare(fabric.view(None, liar), fabric.topology()).found
    assert {plug.host for plug in found} == {"gpu-0", "gpu-2"}


def test_a_host_takes_no_cable_of_another_by_what_it_calls_itself() -> None:
    """Adapters whose descriptions are of a name before are known by their GUIDs."""
    fabric = Fabric(4, words="old-{host} mlx5_{rail}")
    honest = fabric.view()
    liar = honest.facts["gpu-3"]
    liar = liar.model_copy(update={"os": liar.os.model_copy(update={"hostname": "old-1"})})
    said = replace(fabric.view(None, liar), standing=SharedFacts(honest.facts))
    assert [(r.status, r.value) for r in cabling(said)] == [(Status.PASS, 4 * RAILS)]
    assert compare(said, fabric.topology()).found == compare(honest, fabric.topology()).found


def _by_number(host: HostFacts) -> HostFacts:
    """Ports whose GUIDs are their adapter's and their number."""
    ports = tuple(p.model_copy(update={"guid": f"{number(p.guid) + 1:#018x}"}) for p in host.ports)
    return host.model_copy(update={"ports": ports})


@pytest.mark.parametrize("port", [2, 3])
def test_another_port_number_takes_no_adapter_of_another_host(port: int) -> None:
    """The GUID is nobody's; less by the port's number it is that of another host's adapter."""
    fabric = Fabric(4, named=False)
    honest = {f"gpu-{n}": _by_number(fabric.host(n)) for n in range(4)}
    claimed = tuple(
        p.model_copy(update={"guid": f"{number(p.guid) - 1 + port:#018x}", "port": port})
        for p in honest["gpu-1"].ports
    )
    liar = honest["gpu-3"]
    liar = liar.model_copy(update={"ports": (*liar.ports, *claimed)})
    said = replace(fabric.view(None, *honest.values(), liar), standing=SharedFacts(honest))
    found = compare(said, fabric.topology()).found
    assert {plug.host for plug in found} == set(honest)
    assert not {r.host for r in cabling(said)} & {"gpu-0", "gpu-1", "gpu-2"}
