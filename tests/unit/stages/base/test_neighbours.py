"""Whether hosts reach each other: who is blamed for what several of them say."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.engine.look.peers import MOST, peers_of
from appliance.models.result import CheckResult, Status
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

NAMES = ("head", "gpu-1", "gpu-2", "gpu-3")
SITE = site_of(*NAMES)
GATEWAY = "10.0.0.1"
ADDRESS = {host.name: str(host.address) for host in SITE.hosts}
Facts = dict[str, dict[str, Any]]


def sound() -> Facts:
    """By host what it says of the two behind it."""
    found: Facts = {}
    for at, name in enumerate(NAMES):
        peers = [peer(NAMES[(at + step) % len(NAMES)]) for step in (1, 2)]
        own = {"name": "eth0", "mac": mac(name), "mtu": 1500, "state": "up"}
        found[name] = {
            "interfaces": [{**own, "addresses": [f"{ADDRESS[name]}/24"]}],
            "neighbours": {
                "peers": peers,
                "name_servers": [{"address": "192.0.2.53", "answers": True}],
            },
        }
    return found


def mac(name: str) -> str:
    return f"02:00:00:00:00:{NAMES.index(name):02x}"


def peer(name: str, **given: Any) -> dict[str, Any]:
    ports = [{"port": 6818, "state": "open"}] if name != "head" else []
    known = {"name": name, "address": ADDRESS[name], "resolved": [ADDRESS[name]]}
    seen = {"small": True, "large": True, "size": 1500, "mac": mac(name)}
    return {**known, **seen, "ports": ports, **given}


def change(found: Facts, who: str, name: str, /, **given: Any) -> None:
    for one in found[who]["neighbours"]["peers"]:
        if one["name"] == name:
            one.update(given)


def judged(found: Facts) -> list[CheckResult]:
    seen = {name: facts_of(name, **said) for name, said in found.items()}
    return said_by("base.neighbours", View(profile_of(), SITE, seen))


def only(found: Facts) -> CheckResult:
    (one,) = judged(found)
    return one


def test_hosts_that_reach_each_other_pass() -> None:
    found = only(sound())
    assert (found.status, found.value) == (Status.PASS, 8)


def test_one_that_has_the_address_of_another_is_the_only_finding() -> None:
    """It answers itself instead of the other one, which therefore does not reach it."""
    found = sound()
    found["gpu-2"]["interfaces"][0]["addresses"].append(f"{ADDRESS['gpu-1']}/32")
    change(found, "gpu-1", "gpu-2", small=False, large=False)
    one = only(found)
    assert one.target == "gpu-2/eth0,gpu-1"
    assert f"ip addr del {ADDRESS['gpu-1']}/32 dev eth0" in one.fix


@pytest.mark.parametrize(
    ("told", "status", "cause"),
    [
        ({"slowed_by": "tbf", "slowed_to": 1_000_000}, Status.FAIL, "limits it to 1 Mb/s"),
        ({"slowed_by": "netem"}, Status.FAIL, "delays or loses packets"),
        ({"slowed_by": "htb"}, Status.WARN, "limits its rate"),
    ],
)
def test_a_queueing_discipline_that_slows_an_interface_is_named(
    told: dict[str, Any], status: Status, cause: str
) -> None:
    found = sound()
    found["gpu-1"]["interfaces"][0].update(told)
    one = only(found)
    assert (one.status, one.target) == (status, "gpu-1/eth0")
    assert cause in one.cause
    assert "on gpu-1: tc qdisc del dev eth0 root" in one.fix


def test_one_that_alone_cannot_reach_another_is_named() -> None:
    found = sound()
    change(found, "gpu-1", "gpu-2", small=False, large=False)
    one = only(found)
    assert (one.status, one.target) == (Status.FAIL, "gpu-1/gpu-2")
    assert "gpu-1 cannot reach gpu-2 (10.0.0.12), 1 of 2 tested hosts" in one.cause
    assert "ip route get 10.0.0.12" in one.fix


def test_one_that_nobody_reaches_is_one_finding() -> None:
    found = sound()
    for who in ("head", "gpu-1"):
        change(found, who, "gpu-2", small=False, large=False)
    one = only(found)
    assert one.target == "gpu-2/network"
    assert "does not answer packets of head, gpu-1" in one.cause


def test_a_host_that_is_down_is_left_to_the_check_of_that() -> None:
    found = sound()
    del found["gpu-2"]
    for who in ("head", "gpu-1"):
        change(found, who, "gpu-2", small=False, large=False)
    assert only(found).status is Status.PASS


def test_another_mtu_is_named_with_its_end_and_hides_what_follows_from_it() -> None:
    found = sound()
    found["gpu-2"]["interfaces"][0]["mtu"] = 1300
    for who in ("head", "gpu-1"):
        change(found, who, "gpu-2", large=False)
    one = only(found)
    assert one.target == "gpu-2/eth0"
    assert "has an MTU of 1300, 3 of 4 hosts have 1500" in one.cause
    assert "on gpu-2: ip link set eth0 mtu 1500" in one.fix


def test_large_packets_that_a_switch_loses_are_told() -> None:
    found = sound()
    change(found, "head", "gpu-2", large=False, size=9000)
    one = only(found)
    assert "packets of 9000 bytes from head to gpu-2 are lost, small ones arrive" in one.cause
    assert "ping -M do -s 8972 gpu-2" in one.fix


def test_a_port_that_a_firewall_drops_is_told_and_one_nobody_listens_on_is_not() -> None:
    found = sound()
    change(found, "gpu-1", "gpu-2", ports=[{"port": 6818, "state": "silent"}])
    one = only(found)
    assert one.target == "gpu-1/gpu-2 port 6818"
    assert "gpu-1 gets no answer from slurmd of gpu-2 (port 6818)" in one.cause
    change(found, "gpu-1", "gpu-2", ports=[{"port": 6818, "state": "refused"}])
    assert only(found).status is Status.PASS


def test_what_two_hosts_say_of_a_third_is_a_result_of_that_one() -> None:
    found = sound()
    for who in ("head", "gpu-1"):
        change(found, who, "gpu-2", ports=[{"port": 6818, "state": "silent"}])
    one = only(found)
    assert one.target == "gpu-2/port 6818"
    assert "head, gpu-1 get no answer" in one.cause


def test_whatever_one_host_says_of_another_is_its_own_result() -> None:
    lies: list[dict[str, Any]] = [
        {"small": False},
        {"large": False},
        {"ports": [{"port": 6818, "state": "silent"}, {"port": 2049, "state": "hung"}]},
        {"mac": "02:00:00:00:00:aa"},
        {"resolved": ["192.0.2.9"]},
        {"name": "no-host-of-the-site", "small": False},
    ]
    for lie in lies:
        found = sound()
        change(found, "gpu-1", "gpu-2", **lie)
        assert {one.host for one in judged(found)} <= {"gpu-1", None}, lie
        bad = {one.target for one in judged(found) if one.status is Status.FAIL}
        assert all(target.startswith("gpu-1") for target in bad), lie


def test_sizes_that_no_majority_shares_blame_no_host() -> None:
    found = sound()
    for name in ("gpu-2", "gpu-3"):
        found[name]["interfaces"][0]["mtu"] = 9000
    one = only(found)
    assert (one.status, one.target) == (Status.FAIL, "cluster/MTU")
    assert "head 1500, gpu-1 1500, gpu-2 9000, gpu-3 9000" in one.cause


def test_a_file_server_that_hangs_is_told() -> None:
    found = sound()
    change(found, "gpu-2", "head", ports=[{"port": 2049, "state": "hung"}])
    assert "NFS of head accepts connections but does not answer gpu-2" in only(found).cause


def test_a_name_with_another_address_is_told() -> None:
    found = sound()
    change(found, "gpu-2", "head", resolved=["10.0.0.99"])
    assert "gpu-2 resolves head to 10.0.0.99, the site has 10.0.0.10" in only(found).cause
    change(found, "gpu-2", "head", resolved=[])
    assert "to no address" in only(found).cause


def test_name_servers_that_do_not_answer() -> None:
    found = sound()
    servers = found["gpu-1"]["neighbours"]["name_servers"]
    servers.append({"address": "192.0.2.1", "answers": False})
    assert only(found).status is Status.WARN
    servers[0]["answers"] = False
    one = only(found)
    assert one.status is Status.FAIL
    assert "2 name servers of gpu-1 do not answer: 192.0.2.53, 192.0.2.1" in one.cause


def test_two_machines_with_one_address() -> None:
    found = sound()
    change(found, "head", "gpu-2", mac=mac("gpu-3"))
    one = only(found)
    assert one.target == "head/gpu-2 address"
    assert f"head finds {mac('gpu-3')} of gpu-3 at 10.0.0.12" in one.cause


def test_a_default_route_to_another_machine_is_the_cause_of_silent_name_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = sound()
    found["gpu-1"]["neighbours"]["name_servers"][0]["answers"] = False
    found["gpu-1"]["neighbours"]["gateway"] = "10.0.0.250"
    management = {"cidr": "10.0.0.0/24", "gateway": GATEWAY}
    monkeypatch.setitem(globals(), "SITE", site_of(*NAMES, networks={"management": management}))
    one = only(found)
    assert (one.status, one.target) == (Status.FAIL, "gpu-1/route")
    assert one.fix.startswith(f"on gpu-1: ip route replace default via {GATEWAY}; ")
    found["gpu-1"]["neighbours"]["gateway"] = GATEWAY
    assert only(found).target == "gpu-1/resolv.conf"


def test_a_fixed_entry_for_another_machine_is_a_finding_of_the_host_that_has_it() -> None:
    found = sound()
    entry = {"address": ADDRESS["gpu-2"], "mac": "02:00:00:00:00:99", "device": "eth0"}
    found["gpu-3"]["neighbours"]["fixed"] = [entry]
    change(found, "gpu-2", "gpu-3", small=False, large=False)
    one = only(found)
    assert (one.status, one.target) == (Status.FAIL, "gpu-3/gpu-2")
    assert one.fix == f"on gpu-3: ip neigh del {ADDRESS['gpu-2']} dev eth0"
    change(found, "gpu-2", "gpu-3", small=True, large=True)
    found["gpu-3"]["neighbours"]["fixed"] = [{**entry, "mac": mac("gpu-2").upper()}]
    assert only(found).status is Status.PASS


def test_a_router_that_answers_for_all_is_none_of_it() -> None:
    found = sound()
    for name in ("gpu-1", "gpu-2"):
        change(found, "head", name, mac="12:34:56:78:9a:bc")
    assert only(found).status is Status.PASS


def test_what_was_not_asked_is_not_assessed() -> None:
    found = {name: {**said, "neighbours": None} for name, said in sound().items()}
    assert only(found).status is Status.NOT_ASSESSED
    one_mute = sound()
    one_mute["gpu-3"]["neighbours"] = None
    assert only(one_mute).status is Status.NOT_ASSESSED


def test_packets_that_could_not_be_sent_are_no_answer_and_no_pass() -> None:
    found = sound()
    change(found, "gpu-1", "gpu-2", small=None, large=None)
    found["gpu-1"]["errors"] = {"neighbours": "needs root to send packets"}
    one = only(found)
    assert (one.status, one.cause) == (
        Status.NOT_ASSESSED,
        "gpu-1: needs root to send packets",
    )


def test_at_a_thousand_hosts_each_asks_four_others_at_most_and_two_ask_for_each() -> None:
    names = ("head", "nas-1", *(f"gpu-{n}" for n in range(1, 999)))
    hosts = [{"name": n, "address": f"10.0.{i >> 8}.{i & 255}"} for i, n in enumerate(names, 10)]
    site = site_of(
        *hosts,
        networks={"management": {"cidr": "10.0.0.0/16"}},
        storage={"exports": [{"path": "/srv/data"}]},
    )
    asked_for: dict[str, int] = {}
    for host in site.hosts:
        others = [said for said in peers_of(site, host.name) if not said["own"]]
        assert len(others) <= MOST
        for said in others:
            asked_for[str(said["name"])] = asked_for.get(str(said["name"]), 0) + 1
    assert min(asked_for.values()) >= 2
    assert asked_for.keys() == {host.name for host in site.hosts}


def test_a_route_that_leads_nowhere_is_removed_by_its_own_words() -> None:
    found = sound()
    barrier = "route del blackhole 10.0.0.12"
    change(found, "gpu-1", "gpu-2", small=False, large=False, barrier=barrier)
    one = only(found)
    assert "gpu-1 has a route blackhole 10.0.0.12" in one.cause
    assert one.fix == f"on gpu-1: ip {barrier}"


def test_the_rule_that_drops_a_port_is_removed_by_its_own_words() -> None:
    found = sound()
    for who in ("head", "gpu-1"):
        change(found, who, "gpu-2", ports=[{"port": 6818, "state": "silent"}])
    rule = {"by": "rule inet corp in handle 2", "says": "tcp dport 6818 drop", "ports": [6818]}
    other = {"by": "rule inet corp in handle 1", "says": "tcp dport 22 drop", "ports": [22]}
    found["gpu-2"]["neighbours"]["blocks"] = [other, rule]
    assert only(found).fix == "on gpu-2: nft delete rule inet corp in handle 2"


def test_no_word_of_a_host_about_what_blocks_becomes_a_command() -> None:
    found = sound()
    change(found, "gpu-1", "gpu-2", small=False, large=False, barrier="route del x; reboot")
    change(found, "head", "gpu-1", ports=[{"port": 6818, "state": "silent"}])
    block = {"by": "rule inet corp in; reboot", "says": "drop", "ports": []}
    for who in found:
        found[who]["neighbours"]["blocks"] = [block]
    for one in judged(found):
        assert "reboot" not in one.fix


def test_a_host_that_does_not_read_its_own_list_of_names_has_one_finding() -> None:
    found = sound()
    found["gpu-1"]["neighbours"]["sources"] = "dns"
    for name in ("gpu-2", "gpu-3"):
        change(found, "gpu-1", name, resolved=[])
    one = only(found)
    assert one.target == "gpu-1/nsswitch.conf"
    assert "looks hosts up in 'dns', not in files: 2 names" in one.cause
    assert one.fix.startswith("on gpu-1: sed -i 's/^hosts:")


def test_the_remedy_for_a_silent_name_server_is_the_one_that_others_have() -> None:
    found = sound()
    found["gpu-1"]["neighbours"]["name_servers"] = [{"address": "192.0.2.1", "answers": False}]
    one = only(found)
    assert one.fix.startswith("on gpu-1: sed -i 's/^nameserver .*/nameserver 192.0.2.53/'")


def test_one_host_does_not_decide_which_name_server_others_are_told_to_take() -> None:
    found = sound()
    found["gpu-1"]["neighbours"]["name_servers"] = [{"address": "192.0.2.1", "answers": False}]
    evil = {"address": "203.0.113.66", "answers": True}
    found["gpu-2"]["neighbours"]["name_servers"] = [evil] * 16
    assert "nameserver 192.0.2.53/" in only(found).fix
    found["gpu-3"]["neighbours"]["name_servers"] = []
    assert "nameserver 203" not in only(found).fix
    found["head"]["neighbours"]["name_servers"] = []
    assert "nameserver 203" not in only(found).fix


def test_a_host_without_a_route_to_its_name_server_needs_the_route() -> None:
    found = sound()
    lost = {"address": "192.0.2.53", "answers": False, "route": False}
    found["gpu-1"]["neighbours"]["name_servers"] = [lost]
    one = only(found)
    assert (one.target, one.value) == ("gpu-1/route", "no route")
    assert one.fix.startswith("on gpu-1: ip route add default via ")


def test_an_address_of_another_host_is_named_with_what_removes_it() -> None:
    found = sound()
    found["gpu-2"]["interfaces"][0]["addresses"].append(f"{ADDRESS['gpu-1']}/32")
    one = only(found)
    assert one.target == "gpu-2/eth0,gpu-1"
    assert f"has {ADDRESS['gpu-1']}, the address of gpu-1" in one.cause
    assert one.fix.startswith(f"on gpu-2: ip addr del {ADDRESS['gpu-1']}/32 dev eth0")


def test_a_host_that_keeps_its_own_answers_back_is_the_only_one_blamed() -> None:
    found = sound()
    barrier = "neigh del 10.0.0.12 dev eth0"
    change(found, "gpu-1", "gpu-2", small=False, large=False, barrier=barrier)
    back = peer("gpu-1", small=False, large=False)
    found["gpu-2"]["neighbours"]["peers"].append(back)
    one = only(found)
    assert (one.target, one.fix) == ("gpu-1/gpu-2", f"on gpu-1: ip {barrier}")


def test_an_entry_written_by_hand_is_no_second_machine() -> None:
    found = sound()
    barrier = "neigh del 10.0.0.12 dev eth0"
    change(
        found, "gpu-1", "gpu-2", small=False, large=False, barrier=barrier, mac="02:00:00:00:99:99"
    )
    one = only(found)
    assert "gpu-1 has a fixed entry for 10.0.0.12 dev eth0" in one.cause
    assert one.fix == f"on gpu-1: ip {barrier}"


def test_a_rule_without_ports_is_named_where_a_host_is_not_reached() -> None:
    found = sound()
    change(found, "gpu-1", "gpu-2", small=False, large=False)
    rule = {"by": "rule ip corp in handle 2", "says": "ip saddr 10.0.0.11 drop", "ports": []}
    found["gpu-2"]["neighbours"]["blocks"] = [rule]
    assert only(found).fix == "on gpu-2: nft delete rule ip corp in handle 2"


@pytest.mark.parametrize(
    ("does", "cause"),
    [
        ("police", "drops packets above a rate"),
        ("drop", "drops packets"),
        ("redirect", "sends packets to another interface"),
    ],
)
def test_a_traffic_filter_that_loses_packets_is_named(does: str, cause: str) -> None:
    found = sound()
    told = {"does": does, "parent": "ffff:fff2", "priority": 7}
    found["gpu-1"]["interfaces"][0]["filters"] = [told]
    one = only(found)
    assert (one.status, one.target) == (Status.FAIL, "gpu-1/eth0")
    assert cause in one.cause
    assert "on gpu-1: tc filter del dev eth0 parent ffff:fff2 prio 7;" in one.fix


@pytest.mark.parametrize(
    ("says", "cause"),
    [
        ("meta skuid 2001 drop", "drops packets of uid 2001"),
        ("meta skgid 3001 drop", "drops packets of group 3001"),
        ("numgen random mod 100 < 5 drop", "drops a part of all packets"),
        ("meta skuid 2001 ip daddr 169.254.169.254 drop", ""),
        ("meta skuid 33 drop", ""),
        ("tcp dport 22 ct state new limit rate over 10/minute drop", ""),
    ],
)
def test_rules_that_drop_a_part_of_the_packets(says: str, cause: str) -> None:
    found = sound()
    block = {"by": "rule inet corp in handle 2", "says": says, "ports": []}
    found["gpu-1"]["neighbours"]["blocks"] = [block]
    one = only(found)
    assert one.status is (Status.FAIL if cause else Status.PASS)
    assert cause in one.cause
    if cause:
        assert one.fix == "on gpu-1: nft delete rule inet corp in handle 2"
