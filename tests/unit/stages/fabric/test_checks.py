"""The checks of stage fabric: a good fabric, the fault each check is for, and the missing measurement."""

from dataclasses import replace
from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status
from appliance.models.shared_facts import SharedFacts
from appliance.models.site import Role
from appliance.stages.fabric.checks import CHECKS
from appliance.stages.fabric.stage import STAGE
from tests.support.fabric_facts import (
    HOSTS,
    PORTS,
    asked,
    facts,
    guid,
    judge,
    one,
    port,
    profile,
    site,
    view,
)
from tests.support.judging import said_by
from tests.support.sites import site_of

JUDGED = tuple(
    i
    for i in STAGE.checks + STAGE.symptoms
    if i.partition(".")[2]
    not in {
        "cabling",
        "links",
        "standby",
        "partitions",
        "ipoib",
        "roce",
        "firmware",
        "driver",
        "pcie",
        "gpu_direct",
    }
)
"""All checks but those with a test file of their own, test_fabric_*.py."""


def failures(seen: View) -> list[CheckResult]:
    """What all checks of the fabric say is wrong, of gpu-1 and of the cluster."""
    return [r for check in CHECKS for r in judge(check.id, seen) if r.status is Status.FAIL]


def with_ports(*ports: dict[str, Any], **changes: Any) -> View:
    """The good fabric with gpu-1's ports replaced."""
    return view(facts("gpu-1", ports=ports, **changes))


def test_stage_and_module_name_the_same_checks() -> None:
    assert {check.id for check in CHECKS} == set(STAGE.checks + STAGE.symptoms)


@pytest.mark.parametrize("check_id", JUDGED)
def test_a_good_fabric_passes(check_id: str) -> None:
    result = one(check_id, view())
    assert result.status is Status.PASS
    assert not result.simulated


@pytest.mark.parametrize("check_id", JUDGED)
def test_what_a_simulated_fabric_says_is_marked(check_id: str) -> None:
    seen = view(*(facts(host, simulated=("fabric",)) for host in HOSTS))
    assert one(check_id, seen).simulated


def test_a_missing_adapter_is_named_by_what_the_other_hosts_have() -> None:
    result = one("fabric.ports", with_ports(*(port("gpu-1", i) for i in (0, 1, 3))))
    assert (result.status, result.value, result.limit) == (Status.FAIL, 3, 4)
    assert (result.target, result.cause) == (
        "gpu-1/mlx5_2",
        "mlx5_2 is missing: 3 InfiniBand ports, the class has 4",
    )


def test_a_missing_adapter_of_the_only_gpu_host_is_named_by_the_gap() -> None:
    lonely = facts("gpu-1", ports=[port("gpu-1", i) for i in (0, 1, 3)])
    result = one("fabric.ports", View(profile(), site(), {"gpu-1": lonely}))
    assert result.target == "gpu-1/mlx5_2"


def test_trouble_with_the_subnet_manager_does_not_hide_a_missing_adapter() -> None:
    three = (port("gpu-1", i) for i in range(3))
    result = one("fabric.ports", with_ports(*three, errors={"fabric": "sminfo failed with 255"}))
    assert result.status is Status.FAIL


def test_a_port_in_ethernet_mode_is_named_with_the_setting_that_turns_it() -> None:
    ports = [port("gpu-1", i) for i in range(3)] + [port("gpu-1", 3, link_layer="Ethernet")]
    result = one("fabric.ports", with_ports(*ports))
    assert (result.status, result.target) == (Status.FAIL, "gpu-1/mlx5_3")
    assert result.cause == "port 1 of mlx5_3 uses Ethernet, the class has InfiniBand ports"
    assert "mlxconfig -d mlx5_3 set LINK_TYPE_P1=1" in result.fix


def test_ethernet_ports_beside_a_full_fabric_are_nobodys_fault() -> None:
    ports = [port("gpu-1", i) for i in range(4)] + [port("gpu-1", 4, link_layer="Ethernet")]
    assert one("fabric.ports", with_ports(*ports)).status is Status.PASS


def storage(host: str, *indices: int) -> list[dict[str, Any]]:
    """Ethernet ports a host has beside its fabric."""
    return [port(host, i, link_layer="Ethernet", guid=f"{i}:0:0:0") for i in indices]


@pytest.mark.parametrize("names", [(4, 5), (3, 4)])
def test_a_missing_adapter_does_not_make_storage_ports_ports_of_the_wrong_kind(
    names: tuple[int, int],
) -> None:
    """Turned to InfiniBand the host's storage would be gone, too; names move when an adapter is missing."""
    whole = [port("gpu-2", i) for i in range(PORTS)] + storage("gpu-2", 4, 5)
    left = [port("gpu-1", i) for i in range(3)] + storage("gpu-1", *names)
    result = one("fabric.ports", view(facts("gpu-1", ports=left), facts("gpu-2", ports=whole)))
    assert (result.status, result.value) == (Status.FAIL, 3)
    assert "mlxconfig" not in result.fix


def test_a_turned_port_beside_storage_ports_is_the_only_one_to_turn_back() -> None:
    whole = [port("gpu-2", i) for i in range(PORTS)] + storage("gpu-2", 4, 5)
    left = [port("gpu-1", i) for i in range(3)] + storage("gpu-1", 3, 4, 5)
    result = one("fabric.ports", view(facts("gpu-1", ports=left), facts("gpu-2", ports=whole)))
    assert (result.status, result.target) == (Status.FAIL, "gpu-1/mlx5_3")
    assert "mlxconfig -d mlx5_3" in result.fix


def test_without_another_host_no_one_of_several_ethernet_ports_is_turned() -> None:
    left = [port("gpu-1", i) for i in range(3)] + storage("gpu-1", 4, 5)
    lonely = View(profile(), site(), {"gpu-1": facts("gpu-1", ports=left)})
    assert "mlxconfig" not in one("fabric.ports", lonely).fix


DARK = {"state": "1: DOWN", "physical": "3: Disabled"}


def test_a_dark_ethernet_port_wants_a_cable_and_no_infiniband_tool() -> None:
    """Without a carrier the kernel says 3: Disabled of it, cable or not."""
    ports = [
        port("gpu-1", i, link_layer="Ethernet", **({} if i else DARK), counters=NOISY)
        for i in range(PORTS)
    ]
    seen = view(facts("gpu-1", ports=ports), profile_=profile("Ethernet"))
    result = one("fabric.state", seen)
    assert (result.status, result.target) == (Status.FAIL, "gpu-1/mlx5_0")
    assert "no cable" in result.cause
    assert "cable of mlx5_0" in result.fix
    assert "ibportstate" not in result.fix


def test_several_adapters_of_unknown_names_are_one_finding() -> None:
    result = one("fabric.ports", with_ports(port("gpu-1", 0, device="rocep1")))
    assert (result.status, result.target) == (Status.FAIL, "gpu-1")


@pytest.mark.parametrize(
    ("state", "physical", "cause", "fix"),
    [
        ("1: DOWN", "2: Polling", "no signal", "cable of mlx5_1"),
        ("1: DOWN", "3: Disabled", "disabled", "ibportstate"),
        ("1: DOWN", "", "link is down", "mlx5_1"),
        ("5: ACTIVE_DEFER", "4: PortConfigurationTraining", "not usable", "mlx5_1"),
    ],
)
def test_a_port_without_a_link_is_told_by_its_state_and_by_nothing_else(
    state: str, physical: str, cause: str, fix: str
) -> None:
    bad = port("gpu-1", 1, state=state, physical=physical)
    seen = view(
        facts("gpu-1", ports=[port("gpu-1", 0), bad, port("gpu-1", 2), port("gpu-1", 3)]),
        facts("head", **asked(without=("gpu-1", 1))),
    )
    (result,) = failures(seen)
    assert (result.id, result.target) == ("fabric.state", "gpu-1/mlx5_1")
    assert cause in result.cause
    assert fix in result.fix


@pytest.mark.parametrize(
    ("state", "cause", "fix"),
    [
        ("2: INIT", "no subnet manager has configured it", "restart opensm"),
        ("3: ARMED", "has not finished", "opensm.*log"),
        ("1: DOWN", "not usable", "mlx5_1"),
    ],
)
def test_a_linked_port_nobody_configured_wants_a_subnet_manager(
    state: str, cause: str, fix: str
) -> None:
    bad = port("gpu-1", 1, state=state)
    seen = with_ports(port("gpu-1", 0), bad, port("gpu-1", 2), port("gpu-1", 3))
    (result,) = failures(seen)
    assert (result.id, result.target) == ("fabric.active", "gpu-1/mlx5_1")
    assert cause in result.cause
    assert fix in result.fix


def test_a_host_without_any_link_wants_no_subnet_manager() -> None:
    dark = [port("gpu-1", i, state="1: DOWN", physical="2: Polling") for i in range(PORTS)]
    assert one("fabric.active", with_ports(*dark)).status is Status.NOT_ASSESSED


def test_a_bad_cable_is_no_reason_to_run_the_stage_again() -> None:
    assert {"fabric.state", "fabric.ports", "fabric.rate", "fabric.topology"} <= set(STAGE.symptoms)


def test_half_rate_is_named_and_other_ports_are_not() -> None:
    slow = port("gpu-1", 1, rate=100.0)
    result = one("fabric.rate", with_ports(port("gpu-1", 0), slow))
    assert (result.status, result.target) == (Status.FAIL, "gpu-1/mlx5_1")
    assert (result.value, result.limit) == (100.0, 200.0)
    assert result.cause.startswith("half the rate")


def test_a_rate_the_kernel_does_not_tell_is_neither_slow_nor_good() -> None:
    mute = port("gpu-1", 1, rate=0.0)
    result = one("fabric.rate", with_ports(port("gpu-1", 0), mute))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, True)
    assert result.cause == "the kernel reports no rate of mlx5_1"
    slow = port("gpu-1", 2, rate=100.0)
    both = judge("fabric.rate", with_ports(mute, slow))
    assert [r.status for r in both] == [Status.FAIL, Status.NOT_ASSESSED]


def test_a_site_may_set_its_own_rate_and_its_source_is_shown() -> None:
    own = site().model_copy(
        update={"limits": {"fabric.rate": Limit(value=400, source="our switches")}}
    )
    wrong = judge("fabric.rate", view(site_=own))
    assert [result.status for result in wrong] == [Status.FAIL] * PORTS
    assert {result.limit_source for result in wrong} == {"our switches"}


def test_a_port_that_is_down_has_no_rate_to_judge() -> None:
    down = port("gpu-1", 1, state="1: DOWN", physical="2: Polling", rate=10.0)
    assert one("fabric.rate", with_ports(port("gpu-1", 0), down)).status is Status.PASS
    assert one("fabric.rate", with_ports(down)).status is Status.NOT_ASSESSED


NOISY = {"symbol_error": 7, "link_downed": 2}


def later(counters: dict[str, int], minutes: int = 30, **before: Any) -> View:
    """gpu-1's mlx5_1 had NOISY counters, and these some minutes later."""
    now = facts("gpu-1", ports=[port("gpu-1", 0), port("gpu-1", 1, counters=counters)])
    then = facts("gpu-1", ports=[port("gpu-1", 0), port("gpu-1", 1, counters=NOISY)], **before)
    after = now.model_copy(update={"taken": f"2026-11-20T12:{minutes:02}:00Z"})
    return replace(view(after), before={"gpu-1": then})


def test_counters_above_zero_without_a_reading_before_are_shown_but_not_judged() -> None:
    noisy = port("gpu-1", 1, counters=NOISY)
    result = one("fabric.errors", with_ports(port("gpu-1", 0), noisy))
    assert (result.status, result.value, result.required) == (Status.NOT_ASSESSED, 9, False)
    assert result.evidence == "mlx5_1 symbol_error 7, mlx5_1 link_downed 2"


@pytest.mark.parametrize("counters", [{}, {"port_rcv_data": 12345}])
def test_a_port_that_shows_no_error_counter_is_not_good(counters: dict[str, int]) -> None:
    for ports in (
        [port("gpu-1", 0, counters=counters)],
        [port("gpu-1", 0), port("gpu-1", 1, counters=counters)],
    ):
        result = one("fabric.errors", with_ports(*ports))
        assert result.status is Status.NOT_ASSESSED


def test_old_errors_that_do_not_grow_are_good() -> None:
    result = one("fabric.errors", later(NOISY))
    assert (result.status, result.value, result.evidence) == (Status.PASS, 0, "2 ports in 30 min")


@pytest.mark.parametrize(
    ("name", "growth", "minutes", "status"),
    [
        ("link_downed", 1, 30, Status.FAIL),
        ("symbol_error", 120, 30, Status.PASS),
        ("symbol_error", 121, 30, Status.FAIL),
        ("symbol_error", 121, 1, Status.FAIL),
    ],
)
def test_growth_is_held_against_its_limit(
    name: str, growth: int, minutes: int, status: Status
) -> None:
    result = one("fabric.errors", later({**NOISY, name: NOISY[name] + growth}, minutes))
    assert result.status is status
    assert result.value == growth
    if status is Status.FAIL:
        assert (result.target, result.required) == ("gpu-1/mlx5_1", True)
        assert f"{name} grew by {growth} in {minutes} min" in result.cause
        assert "cable of mlx5_1" in result.fix


@pytest.mark.parametrize(
    ("name", "end"),
    [("link_downed", 255), ("symbol_error", 65535), ("excessive_buffer_overrun_errors", 15)],
)
def test_a_counter_at_its_end_proves_nothing(name: str, end: int) -> None:
    seen = later({**NOISY, name: end})
    was = seen.before["gpu-1"]
    full = was.ports[1].model_copy(update={"counters": {**NOISY, name: end}})
    then = was.model_copy(update={"ports": (was.ports[0], full)})
    result = one("fabric.errors", replace(seen, before={"gpu-1": then}))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, True)
    assert result.cause == f"{name} of mlx5_1 is {end}, its highest value: it cannot grow"
    assert "perfquery -R -C mlx5_1 -P 1" in result.fix


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("rnr_nak_retry_err", "the cable is good"),
        ("excessive_buffer_overrun_errors", "firmware of mlx5_1"),
        ("port_xmit_discards", "congested ports"),
    ],
)
def test_a_counter_that_does_not_speak_of_the_cable_blames_another(name: str, fix: str) -> None:
    seen = later({**NOISY, name: 1_000_000})
    was = seen.before["gpu-1"]
    port_ = was.ports[1].model_copy(update={"counters": {**NOISY, name: 0}})
    then = was.model_copy(update={"ports": (was.ports[0], port_)})
    result = one("fabric.errors", replace(seen, before={"gpu-1": then}))
    assert result.status is Status.FAIL
    assert fix in result.fix
    assert "reseat" not in result.fix


def test_counters_that_went_backwards_are_not_assessed() -> None:
    result = one("fabric.errors", later({**NOISY, "symbol_error": 1}))
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)
    assert "symbol_error of mlx5_1 went backwards" in result.cause


def test_readings_too_close_or_from_before_a_start_prove_nothing() -> None:
    assert "less than a minute" in one("fabric.errors", later(NOISY, 0)).cause
    other = facts("gpu-1").os.model_copy(update={"boot_id": "older"})
    assert "rebooted since" in one("fabric.errors", later(NOISY, os=other)).cause


def test_a_port_that_was_down_before_is_not_assessed() -> None:
    seen = later(NOISY)
    was = seen.before["gpu-1"]
    down = was.ports[1].model_copy(update={"state": "DOWN"})
    then = was.model_copy(update={"ports": (was.ports[0], down)})
    result = one("fabric.errors", replace(seen, before={"gpu-1": then}))
    assert result.status is Status.NOT_ASSESSED
    assert result.cause.startswith("mlx5_1: not up at the previous reading")


@pytest.mark.parametrize(
    "check_id",
    ["fabric.ports", "fabric.state", "fabric.active", "fabric.rate", "fabric.errors"],
)
def test_unreadable_ports_are_never_a_pass(check_id: str) -> None:
    result = one(check_id, with_ports(errors={"fabric": "sysfs: permission denied"}))
    assert result.status is Status.NOT_ASSESSED
    assert "permission denied" in result.cause


def test_no_port_at_all_fails_when_sysfs_could_be_read() -> None:
    assert one("fabric.ports", with_ports()).status is Status.FAIL
    assert one("fabric.state", with_ports()).status is Status.NOT_ASSESSED


def test_a_fabric_without_a_master_fails() -> None:
    silent = {"state": "SMINFO_NOTACTIVE", "guid": "", "priority": None}
    result = one("fabric.sm", view(facts("head", subnet_manager=silent)))
    assert result.status is Status.FAIL
    assert "systemctl restart opensm" in result.fix


def test_the_remedy_of_a_missing_master_leaves_out_a_control_host_without_power() -> None:
    silent = {"state": "SMINFO_NOTACTIVE", "guid": "", "priority": None}
    lost = site().host("gpu-1").model_copy(update={"roles": frozenset({Role.CONTROL})})
    three = site().model_copy(update={"hosts": (site().host("head"), lost, site().host("gpu-2"))})
    known = {name: facts(name) for name in ("gpu-2",)} | {
        "head": facts("head", subnet_manager=silent)
    }
    (result,) = said_by("fabric.sm", View(profile(), three, known))
    assert result.fix.startswith("on head: systemctl restart opensm")


def test_a_manager_on_standby_without_a_master_points_to_the_other_one() -> None:
    standby = {"state": "STANDBY", "guid": "0x0c42a10300000000", "priority": 14}
    result = one("fabric.sm", view(facts("head", subnet_manager=standby)))
    assert result.status is Status.FAIL
    assert "opensm of head is on standby" in result.cause
    assert "pgrep -a opensm" in result.fix
    assert "on head: systemctl restart opensm" in result.fix


def test_without_an_own_manager_the_remedy_is_the_switch_or_ufm() -> None:
    silent = {"state": "SMINFO_NOTACTIVE"}
    seen = view(facts("head", subnet_manager=silent), site_=site("external"))
    assert "UFM" in one("fabric.sm", seen).fix


def test_no_host_takes_the_port_of_the_master_by_its_guid() -> None:
    """Who was accepted with it keeps it; before that, a control host's word counts."""
    seen = view(facts("gpu-2", ports=[port("head", 0)]))
    accepted = replace(seen, standing=SharedFacts({"head": facts("head")}))
    assert one("fabric.sm", accepted).status is Status.PASS
    assert one("fabric.sm", seen).status is Status.PASS


def test_one_host_that_claims_a_master_hides_no_lost_one() -> None:
    """Its word would turn the failure into warnings about the others, whose ports stay active."""
    silence = {"area": "fabric", "text": "sminfo failed with 255", "kind": "unanswered"}
    deaf = {"subnet_manager": None, "problems": [silence]}
    liar = facts("gpu-2", subnet_manager={"state": "MASTER", "guid": "0x0c42a10300000000"})
    for honest in (("head", "gpu-1"), ("head",)):
        seen = view(liar, *(facts(name, **deaf) for name in honest))
        result = one("fabric.sm", seen)
        assert (result.status, result.target) == (Status.FAIL, "cluster"), honest
        assert "only gpu-2 reports one" in result.cause
        assert result.names == ("gpu-2",)


def test_a_master_that_is_not_of_the_control_hosts_is_named_with_its_host() -> None:
    rogue = {"state": "MASTER", "guid": "0x0c42a10300010100", "priority": 15}
    result = one("fabric.sm", view(facts("head", subnet_manager=rogue)))
    assert result.status is Status.FAIL
    assert "is 0x0c42a10300010100 of gpu-1 (mlx5_1), not opensm of head" in result.cause
    assert "on gpu-1: pgrep -a opensm" in result.fix
    switch = {**rogue, "guid": "0x0000000000000077"}
    assert "of a switch" in one("fabric.sm", view(facts("head", subnet_manager=switch))).cause
    own = view(facts("head", subnet_manager=switch), site_=site("external"))
    assert one("fabric.sm", own).status is Status.PASS


def test_whose_the_master_is_cannot_be_known_without_the_control_hosts_ports() -> None:
    rogue = {"state": "MASTER", "guid": "0x0000000000000077"}
    seen = view(facts("head", subnet_manager=rogue, ports=[]))
    assert one("fabric.sm", seen).status is Status.NOT_ASSESSED


def test_two_masters_mean_a_fabric_in_parts() -> None:
    other = facts("gpu-2", subnet_manager={"state": "MASTER", "guid": "0x2"})
    result = one("fabric.sm", view(other))
    assert result.status is Status.FAIL
    assert "different subnets" in result.cause
    assert "gpu-2" in result.cause


@pytest.mark.parametrize(
    "deaf",
    [
        {"problems": [{"area": "fabric", "text": "sminfo failed", "kind": "unanswered"}]},
        {"subnet_manager": {"state": "SMINFO_NOTACTIVE", "guid": "0x9"}},
    ],
)
def test_a_host_that_hears_no_master_while_others_do_hangs_on_another_fabric(
    deaf: dict[str, Any],
) -> None:
    waiting = [port("gpu-2", 0, state="2: INIT"), port("gpu-2", 1)]
    result = one("fabric.sm", view(facts("gpu-2", ports=waiting, **deaf)))
    assert (result.status, result.target, result.value) == (Status.FAIL, "gpu-2", "silence")
    assert "head is served by 0x0c42a10300000000" in result.cause
    assert "iblinkinfo on gpu-2" in result.fix
    served = one("fabric.sm", view(facts("gpu-2", **deaf)))
    assert (served.status, served.target) == (Status.WARN, "gpu-2")
    assert "though its ports are active" in served.cause


def test_silence_to_the_question_for_the_master_fails() -> None:
    silence = {"area": "fabric", "text": "sminfo failed with 255", "kind": "unanswered"}
    result = one("fabric.sm", view(facts("head", subnet_manager=None, problems=[silence])))
    assert (result.status, result.value) == (Status.FAIL, "silence")


def test_an_unasked_subnet_manager_is_not_assessed() -> None:
    mute = facts("head", subnet_manager=None, errors={"fabric": "sminfo: no umad device"})
    result = one("fabric.sm", view(mute))
    assert (result.status, result.cause) == (Status.NOT_ASSESSED, "head: sminfo: no umad device")


def test_the_far_end_of_a_slow_cable_is_named() -> None:
    found = asked()
    found["topology"]["hcas"][1]["description"] = "gpu-1 mlx5_1"
    found["topology"]["links"] = [
        {"node": "leaf", "port": 7, "peer": "gpu-1 mlx5_1", "peer_port": 1}
    ]
    slow = facts("gpu-1", ports=[port("gpu-1", 0), port("gpu-1", 1, rate=100.0)])
    result = one("fabric.rate", view(slow, facts("head", **found)))
    assert "the cable of mlx5_1, which ends in port 7 of leaf" in result.fix


def test_an_adapter_discovery_does_not_meet_is_named() -> None:
    result = one("fabric.topology", view(facts("head", **asked(without=("gpu-2", 3)))))
    assert (result.status, result.target) == (Status.FAIL, "gpu-2/mlx5_3")


def test_adapters_are_known_by_description_where_the_host_describes_them() -> None:
    described = asked()
    for hca, index in zip(described["topology"]["hcas"], range(PORTS), strict=False):
        hca |= {"guid": "0x1", "description": f"gpu-1 mlx5_{index}"}
    assert one("fabric.topology", view(facts("head", **described))).status is Status.PASS
    described["topology"]["hcas"][1]["description"] = "gpu-1 mlx5_7"
    assert one("fabric.topology", view(facts("head", **described))).target == "gpu-1/mlx5_1"


def test_a_port_guid_may_be_the_adapters_plus_the_port() -> None:
    ports = [port("gpu-1", i, guid=f"{guid('gpu-1', i)[:-1]}1") for i in range(PORTS)]
    assert one("fabric.topology", view(facts("gpu-1", ports=ports))).status is Status.PASS


def test_undiscovered_topology_is_not_assessed() -> None:
    mute = facts("head", topology=None, errors={"topology": "ibnetdiscover: no umad device"})
    result = one("fabric.topology", view(mute))
    assert result.status is Status.NOT_ASSESSED
    assert "no umad device" in result.cause


def test_a_topology_nothing_was_compared_with_is_not_assessed() -> None:
    bare = {name: facts(name, ports=[]) for name in ("gpu-1", "gpu-2")}
    result = one(
        "fabric.topology", View(profile(), site(), {**bare, "head": facts("head", **asked())})
    )
    assert result.status is Status.NOT_ASSESSED
    assert "cannot be compared" in result.cause


def test_a_silent_gpu_host_keeps_topology_from_passing() -> None:
    known = {host: facts(host) for host in HOSTS if host != "gpu-2"}
    result = one("fabric.topology", View(profile(), site(), known))
    assert (result.status, result.target) == (Status.NOT_ASSESSED, "gpu-2")


def test_a_host_whose_ports_were_not_read_keeps_topology_from_passing() -> None:
    unread = facts("gpu-2", ports=[], errors={"fabric": "Permission denied"})
    result = one("fabric.topology", view(unread))
    assert (result.status, result.target) == (Status.NOT_ASSESSED, "gpu-2")
    assert "Permission denied" in result.cause


def test_a_silent_control_host_is_said_to_be_silent() -> None:
    known = {host: facts(host) for host in HOSTS if host != "head"}
    result = one("fabric.topology", View(profile(), site(), known))
    assert "head did not answer" in result.cause


@pytest.mark.parametrize("check_id", JUDGED)
def test_a_class_without_a_fabric_has_nothing_to_judge(check_id: str) -> None:
    bare = view(*(facts(host, ports=[]) for host in HOSTS), profile_=profile("none", 0))
    results = judge(check_id, bare)
    assert all(result.status is Status.PASS for result in results)
    assert bool(results) is (check_id == "fabric.ports")


def nine(host: str, **of_fifth: Any) -> HostFacts:
    """A host with one port more than the class has."""
    ports = [*(port(host, i) for i in range(PORTS)), port(host, PORTS, **of_fifth)]
    return facts(host, ports=ports)


def test_a_port_beyond_the_class_that_nobody_uses_is_one_warning_and_no_fault() -> None:
    seen = view(*(nine(host, **DARK) for host in HOSTS[1:]))
    result = one("fabric.ports", seen)
    assert (result.status, result.target) == (Status.WARN, f"gpu-1/mlx5_{PORTS}")
    assert "is one too many" in result.cause
    assert f"mlxconfig -d mlx5_{PORTS} set LINK_TYPE_P1=2" in result.fix
    assert failures(seen) == []
    assert one("fabric.state", seen).status is Status.PASS


def test_a_port_beyond_the_class_that_is_in_use_is_judged_like_any_other() -> None:
    seen = view(nine("gpu-1", **DARK), *(nine(host) for host in HOSTS[2:]))
    assert one("fabric.ports", seen).status is Status.PASS
    assert one("fabric.state", seen).target == f"gpu-1/mlx5_{PORTS}"


def test_where_too_many_are_dark_nothing_is_taken_for_a_port_beyond_the_class() -> None:
    dark = [port("gpu-1", i, **DARK) for i in (0, PORTS)]
    seen = view(facts("gpu-1", ports=[*dark, *(port("gpu-1", i) for i in range(1, PORTS))]))
    judged = [r.target for r in judge("fabric.state", seen) if r.status is Status.FAIL]
    assert judged == ["gpu-1/mlx5_0"]
    alone = View(profile(), site_of("head", "gpu-1"), {"gpu-1": seen.facts["gpu-1"]})
    both = {r.target for r in judge("fabric.state", alone) if r.status is Status.FAIL}
    assert both == {"gpu-1/mlx5_0", f"gpu-1/mlx5_{PORTS}"}
