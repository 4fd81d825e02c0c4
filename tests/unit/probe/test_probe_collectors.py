"""What each collector makes of its program's answer, good and bad."""

import errno
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.probe.ask import Ask
from appliance.probe.collectors import clock, filesystems, network, packages, sysctl, system, units
from appliance.probe.mounts import rows
from appliance.probe.problems import Unreadable
from appliance.stages.fabric.collect import adapters as fabric
from appliance.stages.fabric.collect import topology
from appliance.stages.gpu.collect import xids
from appliance.stages.gpu.facts import Xid
from appliance.stages.observe import collect as observe
from appliance.stages.observe.facts import Observe
from appliance.stages.slurm.collect import slurm
from appliance.stages.storage import collect as nfs

Grow = Callable[[dict[str, Any]], str]
Said = Callable[[str], str]
CHRONYD = {"/run/chrony/chronyd.pid": "1\n"}


def test_a_clock_without_a_source_is_not_synchronised(said: Said) -> None:
    found = clock.tracking(said("chronyc-unsynchronised"))
    assert found == {"daemon": "chronyd", "synchronised": False, "offset": None, "source": ""}


def test_when_a_source_last_told_the_time_is_known_and_ones_own_clock_is_no_source() -> None:
    rest = "3,1542651175.25,-0.000748,-0.000424,0.0099,3.588,-0.01,0.3,0.02,0.01,64.2,Normal"
    assert clock.tracking(f"B869B610,192.0.2.7,{rest}")["updated"] == 1542651175.25
    assert "updated" not in clock.tracking(f"7F7F0101,,{rest}")


@pytest.mark.parametrize(
    ("options", "super_options", "read_only", "turned"),
    [
        ("rw,relatime", "rw", False, False),
        ("ro,relatime", "ro", True, False),
        ("rw,relatime", "ro,errors=remount-ro", True, True),
        ("ro", "rw", True, False),
    ],
)
def test_who_made_a_file_system_read_only(
    options: str, super_options: str, read_only: bool, turned: bool
) -> None:
    line = f"36 1 8:17 / /var {options} shared:1 - ext4 /dev/sdb1 {super_options}"
    ((row,), _) = rows(line.encode())
    mount = filesystems.Mount(row)
    assert (mount.read_only, mount.turned) == (read_only, turned)


def test_a_chronyd_that_does_not_answer_leaves_the_clock_unknown(grow: Grow) -> None:
    silent = {"when": {"tracking": "506 Cannot talk to daemon\n"}, "exit": 1}
    ask = Ask({}, grow({**CHRONYD, "/usr/bin/chronyc": silent}))
    found = clock.collect(ask)["clock"]
    assert found.get("synchronised") is None
    assert ask.errors == {"clock": "chronyc: 506 Cannot talk to daemon"}


def test_a_strange_chronyc_is_refused() -> None:
    with pytest.raises(Unreadable, match="unexpected answer"):
        clock.tracking("a,b,c,d,e,f")


def test_without_chrony_the_kernel_is_asked(grow: Grow) -> None:
    found = clock.collect(Ask({}, grow({"/run/systemd/timesync/synchronized": ""})))["clock"]
    assert found["daemon"] == "systemd-timesyncd"
    assert found["synchronised"] in {True, False, None}


@pytest.mark.parametrize("name", ["getty@.service", "a b", "x*", "ünit.service", "-"])
def test_a_name_that_has_no_state_does_not_spoil_the_call(name: str, grow: Grow) -> None:
    shown = {"when": {"ssh.service": "LoadState=loaded\nActiveState=active\nSubState=running\n"}}
    root = grow({"/run/systemd/system/x": "", "/usr/bin/systemctl": shown})
    found = units.query(Ask({}, root), ["ssh.service", name])
    assert found["ssh.service"]["active"] == "active"
    assert found[name]["load"] == "not-found"


SSHD = "LoadState=loaded\nActiveState=active\nSubState=running\nMainPID=7\nControlGroup=/system.slice/ssh.service\n"


@pytest.mark.parametrize(
    ("files", "active", "sub"),
    [
        ({"/proc/7/stat": "7 (sshd) S 1"}, "active", "running"),
        ({"/proc/7/stat": "7 (sshd) T 1"}, "suspended", "stopped by a signal"),
        (
            {"/sys/fs/cgroup/system.slice/ssh.service/cgroup.events": "populated 1\nfrozen 1\n"},
            "suspended",
            "frozen",
        ),
    ],
)
def test_a_unit_that_is_kept_from_running_is_not_active(
    files: dict[str, Any], active: str, sub: str, grow: Grow
) -> None:
    systemctl = {"when": {"ssh.service": SSHD}}
    root = grow({"/run/systemd/system/x": "", "/usr/bin/systemctl": systemctl, **files})
    found = units.query(Ask({}, root), ["ssh.service"])["ssh.service"]
    assert (found["active"], found["sub"]) == (active, sub)


def test_what_fills_a_file_system_is_its_largest_file_or_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data/greedy").mkdir(parents=True)
    (tmp_path / "data/log").write_bytes(b"x" * (1 << 18))
    ask = Ask({}, str(tmp_path))
    assert filesystems._largest(ask, "/data").endswith(" /data/log")
    for name in range(4):
        (tmp_path / f"data/greedy/{name}").write_bytes(b"x" * (1 << 17))
    (tmp_path / "data/link").symlink_to("/")
    assert filesystems._largest(ask, "/data").endswith(" /data/greedy")


@pytest.mark.parametrize(("source", "online"), [("10.0.0.1", 0), ("PPS0", None)])
def test_a_chronyd_without_servers_is_told_although_it_calls_itself_synchronised(
    source: str, online: int | None, grow: Grow
) -> None:
    said = {
        "tracking": f"0A000001,{source},3,1784464321.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,64.4,Normal\n",
        "activity": "0,1,0,0,0\n^,*,10.0.0.1,10,7,370,72,0.0,0.0,0.0\n",
    }
    found = clock.collect(Ask({}, grow({**CHRONYD, "/usr/bin/chronyc": {"when": said}})))["clock"]
    assert found.get("online") == online
    assert found.get("unanswered") == (None if online is None else 3)


@pytest.mark.parametrize(
    ("reach", "missed"), [("377", 0), ("376", 1), ("340", 5), ("0", 8), ("200", 7), ("x", 0)]
)
def test_queries_without_an_answer_are_counted(reach: str, missed: int) -> None:
    assert clock.unanswered(reach) == missed


def test_servers_that_chronyd_does_not_hear_are_told(grow: Grow) -> None:
    said = {
        "tracking": "00000000,,0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,Not synchronised\n",
        "sources": "^,?,192.0.2.7,0,6,0,4294967295,0.0,0.0,0.0\n",
    }
    found = clock.collect(Ask({}, grow({**CHRONYD, "/usr/bin/chronyc": {"when": said}})))["clock"]
    assert (found["synchronised"], found["sources"]) == (False, ["192.0.2.7"])


def test_where_systemd_does_not_run_units_are_not_taken_for_stopped(grow: Grow) -> None:
    assert units.query(Ask({}, grow({})), ["ssh.service"])["ssh.service"]["active"] == "unknown"


def test_loaded_drivers_are_told_with_the_version_that_some_have(grow: Grow) -> None:
    root = grow(
        {
            "/sys/module/mlx5_core/version": "25.07-0.9.7\n",
            "/sys/module/nouveau/refcnt": "0\n",
        }
    )
    assert system.modules(Ask({}, root)) == {
        "mlx5_core": {"version": "25.07-0.9.7"},
        "nouveau": {"version": ""},
    }


def test_mounts_whose_device_is_gone_are_told_before_the_next_boot(grow: Grow) -> None:
    fstab = (
        "UUID=aa-bb / ext4 defaults 0 1\n"
        "UUID=cc-dd /backup ext4 defaults 0 2 # old\n"
        "/dev/mapper/here /here ext4 defaults 0 2\n"
        "LABEL=x /optional ext4 nofail 0 2\n"
        "/dev/sdz1 none swap sw 0 0\n"
        "/dev/sdz2 /late ext4 noauto 0 0\n"
        "head:/data /data nfs defaults 0 0\n"
    )
    mounted = "36 25 8:1 / /here rw - ext4 /dev/dm-0 rw\n"
    root = grow(
        {"/etc/fstab": fstab, "/dev/disk/by-uuid/aa-bb": "", "/proc/self/mountinfo": mounted}
    )
    assert system.lost_at_boot(Ask({}, root)) == ["/backup"]


def test_a_name_that_is_no_package_is_not_asked_for(grow: Grow) -> None:
    query = {"when": {" bash": "bash\tamd64\tinstalled\t5.2\tinstall\n"}, "exit": 1}
    root = grow({"/var/lib/dpkg/status": "", "/usr/bin/dpkg-query": query})
    assert packages.query(Ask({}, root), ["bash", "b*", "-f"]) == {
        "bash": ("installed", "5.2", False)
    }


def test_a_broken_dpkg_is_an_error(grow: Grow) -> None:
    broken = {"when": {"-W": ""}, "exit": 2}
    ask = Ask({}, grow({"/var/lib/dpkg/status": "", "/usr/bin/dpkg-query": broken}))
    with pytest.raises(Unreadable, match="dpkg-query failed with 2"):
        packages.query(ask, ["bash"])


def test_rpm_names_epochs_and_what_is_missing(grow: Grow) -> None:
    answer = (
        "kernel-core\tx86_64\tinstalled\t5.14.0-427.el9\nkernel-core\tx86_64\tinstalled\t5.14.0-503.el9\n"
        "package nosuch is not installed\nchrony\tx86_64\tinstalled\t1:4.5-1.el9\n"
    )
    ask = Ask({}, grow({"/usr/bin/rpm": {"when": {"-q": answer}, "exit": 1}}))
    assert packages.query(ask, ["kernel-core", "nosuch", "chrony"]) == {
        "kernel-core": ("installed", "5.14.0-503.el9", False),
        "chrony": ("installed", "1:4.5-1.el9", False),
    }


def test_an_rpm_without_its_database_is_an_error(grow: Grow) -> None:
    ask = Ask({}, grow({"/usr/bin/rpm": {"when": {"-q": ""}, "exit": 1}}))
    with pytest.raises(Unreadable, match="database"):
        packages.query(ask, ["bash"])


def test_sysctl_names_with_slashes_and_ways_out(grow: Grow) -> None:
    root = grow({"/proc/sys/net/ipv4/conf/eth0.100/rp_filter": "2\n", "/proc/secret": "1\n"})
    ask = Ask({}, root)
    assert sysctl.parameter(ask, "net.ipv4.conf.eth0/100.rp_filter") == "2"
    assert sysctl.parameter(ask, "net/ipv4/conf/eth0.100/rp_filter") == "2"
    assert sysctl.parameter(ask, "//.secret") is None
    assert sysctl.parameter(ask, "net.ipv4") is None


@pytest.mark.parametrize(
    ("tree", "client"),
    [
        ({"/proc/filesystems": "nodev\tnfs4\n"}, "kernel"),
        ({"/proc/filesystems": "ext4\n"}, ""),
        ({"/proc/filesystems": "ext4\n", "/usr/bin/nfs-cp": {"when": {}}}, "libnfs"),
    ],
)
def test_nfs_clients(tree: dict[str, Any], client: str, grow: Grow) -> None:
    assert nfs.collect(Ask({}, grow(tree))) == {"nfs_client": client}


def namespaces(pid: int, uts: int) -> dict[str, Any]:
    numbers = {"pid": pid, "uts": uts}
    return {f"/proc/self/ns/{k}": {"link": f"{k}:[{n}]"} for k, n in numbers.items()}


@pytest.mark.parametrize(
    ("tree", "container"),
    [
        ({"/run/host/container-manager": "lxc\n"}, "lxc"),
        ({"/run/.containerenv": ""}, "podman"),
        ({"/.dockerenv": ""}, "docker"),
        ({"/.dockerenv": "", **namespaces(4026532201, 4026532199)}, "docker"),
        ({"/.dockerenv": "", **namespaces(4026531836, 4026532199)}, "docker"),
        ({"/.dockerenv": "", **namespaces(4026531836, 4026531838)}, ""),
        ({}, ""),
    ],
)
def test_a_machine_made_of_a_containers_image_is_no_container(
    tree: dict[str, Any], container: str, grow: Grow
) -> None:
    root = grow({"/etc/os-release": "ID=debian\n", "/proc/self/mountinfo": "", **tree})
    assert system.collect(Ask({}, root))["os"]["container"] == container


def test_a_loadable_nfs_module_counts_only_outside_a_container(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = "kernel/fs/nfs/nfs.ko.xz: kernel/fs/lockd/lockd.ko.xz\n"
    monkeypatch.setattr(os, "uname", lambda: type("U", (), {"release": "6.1"}))
    root = grow({"/proc/filesystems": "ext4\n", "/lib/modules/6.1/modules.dep": modules})
    assert nfs.collect(Ask({}, root)) == {"nfs_client": "kernel"}
    grow({"/run/systemd/container": "systemd-nspawn\n"})
    assert nfs.collect(Ask({}, root)) == {"nfs_client": ""}


def test_a_missing_subnet_manager_is_told(grow: Grow) -> None:
    port = "/sys/class/infiniband/mlx5_0/ports/1/"
    up = {port + "link_layer": "InfiniBand\n", port + "phys_state": "5: LinkUp\n"}
    ask = Ask({}, grow({**up, "/usr/sbin/sminfo": {"when": {"": ""}, "exit": 255}}))
    assert fabric.collect(ask)["subnet_manager"] is None
    assert ask.errors == {"fabric": "sminfo failed with 255"}
    assert ask.problems == []


def test_a_question_nobody_answers_is_known_by_its_kind(grow: Grow) -> None:
    port = "/sys/class/infiniband/mlx5_0/ports/1/"
    up = {port + "link_layer": "InfiniBand\n", port + "phys_state": "5: LinkUp\n"}
    said = "ibwarn: [7] mad_rpc: _do_madrpc failed; dport (Lid 1)"
    text = f"#!/bin/sh\necho '{said}' >&2\nexit 255\n"
    ask = Ask({}, grow({**up, "/usr/sbin/sminfo": {"text": text, "mode": "0755"}}))
    assert fabric.collect(ask)["subnet_manager"] is None
    (problem,) = ask.problems
    assert (problem["area"], problem["kind"]) == ("fabric", "unanswered")
    assert problem["text"] == ask.errors["fabric"] == f"sminfo failed with 255: {said}"


def test_a_file_system_that_gives_no_answer_is_known_by_its_place(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(at: str) -> None:
        raise OSError(*failures.pop(0))

    failures = [(errno.EIO, "Input/output error"), (errno.ESTALE, "Stale file handle")]
    monkeypatch.setattr(os, "statvfs", broken)
    table = "20 1 8:1 / /a rw - ext4 /dev/sda rw\n21 1 8:2 / /b rw - ext4 /dev/sdb rw\n"
    ask = Ask({}, grow({"/proc/self/mountinfo": table}))
    assert filesystems.collect(ask) == {"filesystems": []}
    assert [(p["at"], p["kind"]) for p in ask.problems] == [("/a", "io_error"), ("/b", "")]


def test_a_question_for_the_subnet_manager_that_got_lost_is_asked_again(grow: Grow) -> None:
    port = "/sys/class/infiniband/mlx5_0/ports/1/"
    up = {port + "link_layer": "InfiniBand\n", port + "phys_state": "5: LinkUp\n"}
    answer = "sminfo: sm lid 1 sm guid 0xc42a10300000001, activity count 3 priority 14 state 3 SMINFO_MASTER"
    root = grow(up)
    once = f'#!/bin/sh\nmkdir {root}/asked 2>/dev/null && exit 255\necho "{answer}"\n'
    grow({"/usr/sbin/sminfo": {"text": once, "mode": "0755"}})
    ask = Ask({}, root)
    assert fabric.collect(ask)["subnet_manager"]["state"] == "MASTER"
    assert not ask.errors


ETHERNET = {
    "/sys/class/infiniband/mlx5_0/ports/1/link_layer": "Ethernet\n",
    "/sys/class/infiniband/mlx5_0/device/net/eth2/mtu": "9000\n",
    "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos": "104\n",
}
ROCE_UNIT = {"/etc/systemd/system/appliance-roce.service": ""}
DCB = {
    "/sbin/dcb": {
        "when": {
            "pfc show dev eth2": "prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off\n",
            "--json app show dev eth2": '{"dscp_prio":[[26,3]]}\n',
        }
    }
}


def test_what_makes_an_ethernet_port_lossless_is_read_where_the_stage_set_it_up(grow: Grow) -> None:
    root = grow({**ETHERNET, **DCB})
    assert "roce" not in fabric.ports(Ask({}, root))[0]
    grow(ROCE_UNIT)
    ask = Ask({}, root)
    read = {"interface": "eth2", "mtu": 9000, "pfc": [3], "dscp": {"26": 3}, "tos": 104}
    assert fabric.ports(ask)[0]["roce"] == {**read, "traffic_class": None, "ecn": None}
    assert ask.errors == {}
    shown = {f"ecn/{half}/enable/{n}": "1\n" for half in ("roce_np", "roce_rp") for n in (2, 3)}
    grow({"/sys/class/infiniband/mlx5_0/device/net/eth2/" + at: on for at, on in shown.items()})
    grow({"/sys/class/infiniband/mlx5_0/device/net/eth2/ecn/roce_rp/enable/2": "0\n"})
    grow({"/sys/class/infiniband/mlx5_0/tc/1/traffic_class": "Global tclass=104\n"})
    more = fabric.ports(Ask({}, root))[0]["roce"]
    assert (more["ecn"], more["traffic_class"]) == ([3], 104)


def test_a_port_whose_driver_knows_no_priorities_leaves_them_unknown(grow: Grow) -> None:
    ask = Ask({}, grow({**ETHERNET, **ROCE_UNIT}))
    found = fabric.ports(ask)[0]["roce"]
    assert (found["pfc"], found["dscp"], found["mtu"]) == (None, None, 9000)
    assert "dcb: not installed" in ask.errors["fabric"]


def test_a_port_without_priorities_by_dscp_has_none() -> None:
    assert fabric.marked("") == fabric.marked("{}") == {}


def test_strange_answers_of_fabric_tools_are_refused() -> None:
    with pytest.raises(Unreadable, match="dcb pfc: unexpected"):
        fabric.paused("hello")
    for said in ("hello", "[1]", '{"dscp_prio":[1]}'):
        with pytest.raises(Unreadable, match="dcb app: unexpected"):
            fabric.marked(said)
    with pytest.raises(Unreadable, match="sminfo: unexpected"):
        fabric.sminfo("sminfo: hello")
    with pytest.raises(Unreadable, match="ibnetdiscover: unexpected"):
        topology.parse("#\n# Topology file: generated\n")


def test_a_cable_with_an_optical_port_number_and_an_unknown_speed() -> None:
    found = topology.parse(
        'Switch\t65 "S-0a"\t\t# "leaf 1" enhanced port 0 lid 2 lmc 0\n'
        '[1][ext 5]\t"H-0b"[1](b1) \t\t# "node one HCA-1" lid 3 2xNDR\n'
        'Ca\t1 "H-0b"\t\t# "node one HCA-1"\n'
        '[1](b1) \t"S-0a"[1]\t\t# lid 3 lmc 0 "leaf 1" lid 2 2xNDR\n'
    )
    assert found["links"] == [
        {
            "node": "leaf 1",
            "port": 1,
            "peer": "node one HCA-1",
            "peer_port": 1,
            "width": "2x",
            "speed": "NDR",
        }
    ]


def test_a_drained_node_with_a_reason_that_looks_like_fields(said: Said) -> None:
    assert slurm.nodes(said("scontrol-nodes")) == [
        {
            "name": "gpu-1",
            "state": "unknown+drain+not_responding",
            "reason": "gpu 3: ECC errors = 12, see ticket [root@2026-11-20T13:51:25]",
            "gres": "gpu:a100:8",
            "cpus": 2,
            "memory": 1000,
        }
    ]


def test_the_controller_up_down_and_dumb(said: Said) -> None:
    assert slurm.ping(said("scontrol-ping")) == "up"
    assert slurm.ping(said("scontrol-ping-down")) == "down"
    assert slurm.ping("slurm_ping: no route\n") == "slurm_ping: no route"
    assert slurm.ping("") == "no answer"


SLURM = {
    "/usr/sbin/slurmctld": {"when": {}},
    "/etc/slurm/slurm.conf": "ClusterName=Acme\nAccountingStorageType=accounting_storage/slurmdbd\n",
}


def scontrol(ping: str, nodes: str) -> dict[str, Any]:
    return {"when": {"--version": "slurm 24.11.1\n", "ping": ping, "nodes": nodes}}


@pytest.mark.parametrize(("clusters", "known"), [("acme\nother\n", True), ("other\n", False)])
def test_slurm_with_accounting(clusters: str, known: bool, grow: Grow, said: Said) -> None:
    tools = {
        "/usr/bin/scontrol": scontrol(said("scontrol-ping"), said("scontrol-nodes")),
        "/usr/bin/sacctmgr": {"when": {"cluster": clusters}},
    }
    found = slurm.collect(Ask({}, grow({**SLURM, **tools})))["slurm"]
    assert (found["version"], found["controller"], found["accounting"]) == ("24.11.1", "up", known)
    assert [node["name"] for node in found["nodes"]] == ["gpu-1"]


PARTITION = (
    "PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL DenyAccounts=lab MaxTime=1-00:00:00 "
    "Nodes=gpu-[1-3] RootOnly=NO State=DOWN TotalCPUs=6 TotalNodes=3 TRES=cpu=6\n"
)


def test_partitions_as_slurmctld_uses_them() -> None:
    said = slurm.partition(PARTITION.strip())
    assert (said["name"], said["state"], said["nodes"]) == ("gpu", "DOWN", 3)
    assert said["settings"]["DenyAccounts"] == "lab"
    assert said["settings"]["MaxTime"] == "1-00:00:00"
    assert "TRES" not in said["settings"]


def test_associations_with_the_limits_that_let_nothing_run() -> None:
    said = (
        "root||||||||||||\ndefault||normal|high|gres/gpu=0,cpu=8|4|0||||||\n"
        "default|bea|normal,high|||||||||00:00:00|\n"
    )
    rows = slurm.associations(said)
    assert [(row["account"], row["user"]) for row in rows] == [
        ("root", ""),
        ("default", ""),
        ("default", "bea"),
    ]
    assert rows[1]["zero"] == ["GrpTRES=gres/gpu=0", "GrpSubmit=0"]
    assert [row["default_qos"] for row in rows] == ["", "high", ""]
    assert rows[2]["qos"] == ["normal", "high"]
    assert rows[2]["zero"] == ["MaxWall=00:00:00"]


@pytest.mark.parametrize(
    ("value", "is_told"),
    [
        *(("0", True), ("00:00:00", True), ("00:01:00", True), ("00:04:59", True)),
        *(("00:05:00", False), ("1-00:00:00", False), ("01:00:00", False), ("10", False)),
        *(("mem=50M", True), ("mem=5000K", True), ("mem=100M", False), ("mem=1G", False)),
        *(("cpu=1,gres/gpu=0", True), ("cpu=1,gres/gpu=1", False), ("", False)),
    ],
)
def test_limits_by_which_no_job_runs(value: str, is_told: bool) -> None:
    assert bool(slurm.zeros(("MaxWall",), [value])) is is_told


def test_qos_by_which_no_job_runs(grow: Grow) -> None:
    def row(name: str, flags: str, least: str = "", **limits: str) -> str:
        return (
            "|".join([name, flags, least, *(limits.get(at, "") for at in slurm.QOS_LIMITS)]) + "\n"
        )

    said = row("normal", "", MaxTRESPU="cpu=4", MaxWall="01:00:00")
    said += row("large", "", "cpu=9,gres/gpu=9,node=1")
    said += row("short", "DenyOnLimit", MaxWall="00:01:00")
    said += row("kept", "DenyOnLimit,RequiresReservation", GrpTRES="cpu=8")
    ask = Ask({}, grow({"/usr/bin/sacctmgr": {"when": {"qos": said}}}))
    held = {"short": ["MaxWall=00:01:00"], "kept": ["Flags=RequiresReservation"]}
    assert slurm._qos(ask) == (held, {"large": "cpu=9,gres/gpu=9,node=1"})
    nodes = [{"cpus": 16, "gres": "gpu:a100:8(S:0-1)"}]
    assert slurm._too_large(slurm._qos(ask), nodes) == {**held, "large": ["MinTRES=gres/gpu=9"]}
    assert slurm._too_large(slurm._qos(ask), []) == held


def test_more_associations_than_a_site_has_are_not_read() -> None:
    with pytest.raises(Unreadable, match="are read at most"):
        slurm.associations("a|b|c|d|e\n" * 10_001)


def as_user(sbatch: str) -> dict[str, Any]:
    return {
        **SLURM,
        "/etc/passwd": "root:x:0:0::/root:/bin/sh\nbea:x:2001:2001::/home/bea:/bin/bash\n",
        "/etc/group": "",
        "/usr/bin/sacctmgr": {"when": {"cluster": "acme\n"}},
        "/usr/bin/scontrol": {
            "when": {
                "--version": "slurm 24.11.1\n",
                "ping": "Slurmctld(primary) at head is UP\n",
                "nodes": "",
                "partition": PARTITION,
            }
        },
        "/usr/bin/sbatch": {"when": {}},
        "/usr/bin/setpriv": {"text": f"#!/bin/sh\n{sbatch}\n", "mode": "0755"},
    }


def test_a_job_is_submitted_as_a_user_who_has_an_account_here(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    tried = grow(as_user('echo "$*" > /dev/stderr; exit 0'))
    ask = Ask({"users": ["stranger", "bea"]}, tried)
    assert slurm.collect(ask)["slurm"]["submissions"] == [
        {"user": "bea", "partition": "gpu", "refused": ""}
    ]


def test_the_words_of_a_refusal_are_kept(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    refusing = grow(
        as_user("echo 'sbatch: error: allocation failure: Invalid account' >&2; exit 1")
    )
    said = slurm.collect(Ask({"users": ["bea"]}, refusing))["slurm"]["submissions"]
    assert said == [
        {"user": "bea", "partition": "gpu", "refused": "allocation failure: Invalid account"}
    ]


def test_jobs_are_counted_in_partitions_that_the_site_does_not_list(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    root = grow({**as_user("exit 0"), "/usr/bin/squeue": {"when": {"--partition=gpu": "7\n8_1\n"}}})

    def jobs(*listed: str) -> list[int | None]:
        seen = slurm.collect(Ask({"partitions": list(listed)}, root))["slurm"]
        return [one.get("jobs", 0) for one in seen["partitions"]]

    assert jobs("batch") == [2]
    assert jobs("gpu") == jobs() == [0]
    Path(root, "usr/bin/squeue").unlink()
    assert jobs("batch") == [None]


def test_without_a_user_no_job_is_submitted(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    found = slurm.collect(Ask({"users": ["ada"]}, grow(as_user("exit 0"))))["slurm"]
    assert found["submissions"] is None


def test_slurm_whose_controller_and_database_are_down(grow: Grow, said: Said) -> None:
    tools = {
        "/usr/bin/scontrol": scontrol(said("scontrol-ping-down"), ""),
        "/usr/bin/sacctmgr": {"when": {"cluster": ""}, "exit": 1},
    }
    ask = Ask({}, grow({**SLURM, **tools}))
    found = slurm.collect(ask)["slurm"]
    assert (found["controller"], found["accounting"]) == ("down", False)
    assert "nodes" not in found
    assert ask.errors == {"slurm": "sacctmgr failed with 1"}


def test_a_list_of_hosts_slurm_did_not_give_is_not_an_empty_one(grow: Grow, said: Said) -> None:
    script = f'#!/bin/sh\ncase "$*" in *nodes*) exit 1;; *ping*) cat <<E\n{said("scontrol-ping")}\nE\n;; *) echo 24.11.1;; esac\n'
    tools = {
        "/usr/bin/scontrol": {"text": script, "mode": "0755"},
        "/usr/bin/sacctmgr": {"when": {"cluster": "acme\n"}},
    }
    ask = Ask({}, grow({**SLURM, **tools}))
    found = slurm.collect(ask)["slurm"]
    assert (found["controller"], found["nodes"]) == ("up", None)
    assert "scontrol" in ask.errors["slurm"]


def test_without_slurmctld_slurm_is_not_asked(grow: Grow) -> None:
    assert slurm.collect(Ask({}, grow({}))) == {"slurm": None}


def test_xids_need_a_log_only_where_there_are_gpus(grow: Grow) -> None:
    root = grow({})
    assert xids.collect(Ask({}, root)) == {"xids": [], "xid_events": None}
    grow(
        {
            f"/sys/bus/pci/devices/0000:1b:00.0/{k}": v
            for k, v in (("vendor", "0x10de"), ("class", "0x030200"))
        }
    )
    with pytest.raises(Unreadable, match="no kernel log"):
        xids.collect(Ask({}, root))


def test_a_simulated_host_may_name_its_own_kernel_log(grow: Grow) -> None:
    marker = '{"areas": ["gpu"], "kmsg": "/var/lib/lab/kmsg"}'
    said = "NVRM: Xid (PCI:0000:07:00): 48, pid=1, DBE"
    log = f"4,812,0,-;{said}\n"
    ask = Ask({}, grow({"/etc/appliance/simulated.json": marker, "/var/lib/lab/kmsg": log}))
    (event,) = xids.collect(ask)["xid_events"]
    assert event.pop("age") > 0
    assert event == {"code": 48, "bus_id": "0000:07:00", "text": said}
    assert xids.collect(ask)["xids"] == [said]


@pytest.mark.parametrize(
    ("text", "code", "bus_id"),
    [
        ("NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row", 63, "0000:10:1c"),
        ("NVRM: Xid (PCI:0000:10:1c GPU-I:07): 13, Graphics Exception", 13, "0000:10:1c"),
        ("NVRM: Xid (0000:01:00): 79, GPU has fallen off the bus.", 79, "0000:01:00"),
    ],
)
def test_an_xid_is_taken_apart_and_dated(text: str, code: int, bus_id: str) -> None:
    (event,) = xids.events([f"4,812,40000000,-;{text}", "6,813,41000000,-;usb 1-1: new"], 100.0)
    assert event == {"code": code, "bus_id": bus_id, "age": 60.0, "text": text}


FORGED = [
    # The kernel tells of a program that failed by its name and its file's.
    "4,9,40000000,-;a[7]: segfault at 0 ip 0 sp 0 error 6 in NVRM: Xid (PCI:0000:07:00): 79, GPU[4+1]",
    "4,9,40000000,-;NVRM: Xid (PCI:[7]: segfault at 0 ip 0 sp 0 error 6 in x): 79, y[400000+1000]",
    "4,9,40000000,-;NVRM: Xid (0000[7]: segfault at 0 ip 0 sp 0 error 6 in x): 79, y[400000+1000]",
    "4,9,40000000,-;nvidia-nvswitch[7]: segfault in nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Fatal",
    "5,9,40000000,-;audit: type=1326 comm=NVRM: Xid (PCI:0000:07:00): 79, exe=x",
    # Written into /dev/kmsg: the facility is the user's.
    "12,9,40000000,-;NVRM: Xid (PCI:0000:07:00): 79, GPU has fallen off the bus.",
    "11,9,40000000,-;nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 28",
    # Lines behind a record: what it is about, and what a careless reader would split.
    " DEVICE=NVRM: Xid (PCI:0000:07:00): 79, GPU",
    "NVRM: Xid (PCI:0000:07:00): 79, GPU has fallen off the bus.",
    "4,9,40000000,-;a[7]: segfault in x\u20284,9,40000000,-;NVRM: Xid (PCI:0000:07:00): 79, GPU",
    "4,9,40000000,-;a[7]: segfault in x\r4,9,40000000,-;NVRM: Xid (PCI:0000:07:00): 79, GPU",
    "4,9,40000000,-; NVRM: Xid (PCI:0000:07:00): 79, GPU",
]


@pytest.mark.parametrize("line", FORGED)
def test_no_name_of_a_program_passes_for_a_message_of_the_driver(line: str) -> None:
    assert xids.messages(line) == []
    for shape in (xids.PARTS, xids.SWITCH):
        assert xids.events([line], 100.0, shape) == []


def test_a_job_that_floods_the_log_does_not_push_out_what_another_gpu_said(grow: Grow) -> None:
    """Nothing later may hide a GPU that fell off the bus."""
    marker = '{"areas": ["gpu"], "kmsg": "/var/lib/lab/kmsg"}'
    flood = "4,2,0,-;NVRM: Xid (PCI:0000:07:00): 13, pid=1, Graphics SM Warp Exception\n" * 500
    log = "4,1,0,-;NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.\n" + flood
    ask = Ask({}, grow({"/etc/appliance/simulated.json": marker, "/var/lib/lab/kmsg": log}))
    found = [Xid.model_validate(event) for event in xids.collect(ask)["xid_events"]]
    assert (found[0].code, found[-1].code) == (79, 13)
    assert len(found) < 100
    assert sum(1 + event.omitted for event in found) == 501


def test_messages_of_nvswitches_are_taken_without_their_data() -> None:
    at = "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034"
    rest = ["Fatal, Link 28 LTSSM Fault Up", "Severity 5 Engine instance 28", "Data {0x0, 0x1}"]
    lines = [f"3,{i},40000000,-;{at}, {said}" for i, said in enumerate(rest)]
    (event,) = xids.events(lines, 100.0, xids.SWITCH)
    assert (event["code"], event["bus_id"], event["age"]) == (20034, "0000:c3:00.0", 60.0)
    assert event["text"].endswith(": 20034, Fatal, Link 28 LTSSM Fault Up")
    assert xids.events(lines, 100.0) == []


def test_a_log_that_lost_its_beginning_says_how_far_back_it_reaches() -> None:
    assert xids.span("6,0,0,-;Linux version\n", 100.0) is None
    assert xids.span("6,517,40000000,-;usb 1-1: new\n", 100.0) == 60.0
    assert xids.span("", 100.0) == 0.0


def test_a_log_that_is_overwritten_while_it_is_read_begins_behind_the_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "kmsg"
    log.write_text("")
    records: list[bytes | OSError] = [
        b"6,0,0,-;Linux version\n",
        BrokenPipeError(),
        b"6,900,1000000,-;usb 1-1: new\n",
        BlockingIOError(),
    ]

    def read(fd: int, size: int) -> bytes:
        del fd, size
        record = records.pop(0)
        if isinstance(record, bytes):
            return record
        raise record

    ask = Ask({})
    ask.kmsg = str(log)
    monkeypatch.setattr(os, "read", read)
    monkeypatch.setattr(xids, "_now", lambda: 61.0)
    assert xids.collect(ask)["kernel_log_span"] == 60.0


def test_a_pipe_in_place_of_the_log_is_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "kmsg")
    ask = Ask({})
    ask.kmsg = xids_device = str(tmp_path / "kmsg")
    monkeypatch.setattr(xids, "DEVICE", xids_device)
    with pytest.raises(Unreadable, match="is not the kernel's log"):
        xids.collect(ask)


def test_addresses_from_netlink() -> None:
    def attribute(kind: int, value: bytes) -> bytes:
        return struct.pack("=HH", 4 + len(value), kind) + value

    body = struct.pack("=BBBBI", socket.AF_INET, 24, 0, 0, 7)
    body += attribute(1, bytes([10, 0, 0, 9])) + attribute(2, bytes([10, 0, 0, 2]))
    assert network.parse(body) == (7, "10.0.0.2/24")
    message = struct.pack("=IHHII", 16 + len(body), 20, 0, 1, 0) + body
    assert list(network.messages(message * 2 + b"\0" * 16)) == [(20, body), (20, body)]


def attribute(kind: int, value: bytes) -> bytes:
    """As netlink pads it to four bytes."""
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


@pytest.mark.parametrize(
    ("kind", "options", "rate"),
    [
        (
            "tbf",
            attribute(1, struct.pack("=BBHhHI", 0, 1, 0, 0, 0, 125_000) + bytes(24)),
            1_000_000,
        ),
        ("tbf", b"", None),
        ("netem", struct.pack("=6I", 1, 2, 3, 4, 5, 6), None),
    ],
)
def test_queueing_disciplines_from_netlink(kind: str, options: bytes, rate: int | None) -> None:
    body = struct.pack("=BxxxiIII", 0, 7, 0x80010000, 0xFFFFFFFF, 2)
    body += attribute(1, kind.encode() + b"\0") + attribute(2, options)
    assert network.discipline(body) == (7, kind, rate)


def test_the_kernels_own_disciplines_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = ("noqueue", "fq_codel", "mq", "fq", "pfifo_fast", "ingress", "clsact", "tbf", "htb")
    bodies = [
        struct.pack("=BxxxiIII", 0, index, 0, 0, 0) + attribute(1, name.encode() + b"\0")
        for index, name in enumerate(usual)
    ]
    monkeypatch.setattr(network, "_dump", lambda *_: iter(bodies))
    assert network._slowed() == {
        7: {"slowed_by": "tbf", "slowed_to": None},
        8: {"slowed_by": "htb", "slowed_to": None},
    }


@pytest.fixture
def prometheus() -> Iterator[Callable[[list[str]], tuple[str, int]]]:
    """A server that gives one captured answer per connection."""
    servers = []

    def serve(answers: list[str]) -> tuple[str, int]:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)
        threading.Thread(target=talk, args=(server, answers), daemon=True).start()
        address: tuple[str, int] = server.getsockname()
        return address

    def talk(server: socket.socket, answers: list[str]) -> None:
        for answer in answers:
            wire, _ = server.accept()
            with wire:
                wire.recv(4096)
                wire.sendall(answer.encode())

    yield serve
    for server in servers:
        server.close()


Serve = Callable[[list[str]], tuple[str, int]]


def test_targets_of_prometheus(prometheus: Serve, said: Said, grow: Grow) -> None:
    address = prometheus([said("prometheus-targets"), said("prometheus-rules")])
    found = observe.collect(Ask({}, grow({})), address)["observe"]
    assert [(t["job"], t["health"]) for t in found["targets"]] == [
        ("node", "down"),
        ("prometheus", "up"),
    ]
    assert "connection refused" in found["targets"][0]["error"]


def test_rules_that_fire(prometheus: Serve, said: Said, grow: Grow) -> None:
    rules = (
        'HTTP/1.0 200 OK\r\n\r\n{"status":"success","data":{"groups":[{"rules":[{"name":"Hot","state":"firing",'
        '"type":"alerting"},{"name":"Cold","state":"inactive","type":"alerting"},{"name":"r","type":"recording"}]}]}}'
    )
    address = prometheus([said("prometheus-targets"), rules])
    found = observe.collect(Ask({}, grow({})), address)["observe"]
    assert (found["rules"], found["firing"]) == (2, ["Hot"])


def test_rules_of_the_sites_own_and_such_that_cannot_be_evaluated_do_not_stand_in_for_ours(
    prometheus: Serve, said: Said, grow: Grow
) -> None:
    ours, own = (
        {"file": f"/etc/prometheus/rules/{name}.yml", "rules": rules}
        for name, rules in (
            (
                "appliance",
                [
                    {"name": "Hot", "health": "ok"},
                    {"name": "Ill", "health": "err"},
                    {"name": "New", "health": "unknown"},
                ],
            ),
            (
                "own",
                [
                    {"name": "Mine", "health": "ok", "state": "firing"},
                    {"name": "New", "health": "unknown"},
                ],
            ),
        )
    )
    told = json.dumps({"status": "success", "data": {"groups": [ours, own]}})
    address = prometheus([said("prometheus-targets"), f"HTTP/1.0 200 OK\r\n\r\n{told}"])
    found = observe.collect(Ask({}, grow({})), address)["observe"]
    assert (found["rules"], found["waiting"], found["firing"]) == (2, 1, ["Mine"])


def test_who_alertmanager_tells_and_whether_it_is_given_anything(
    prometheus: Serve, said: Said, grow: Grow
) -> None:
    names = '[{"name":"nobody"},{"name":"oncall"},{"name":"chat"}]'
    teller = prometheus([f"HTTP/1.0 200 OK\r\n\r\n{names}", said("alertmanager-silences")])
    given = '{"status":"success","data":{"activeAlertmanagers":[{"url":"x"}],"droppedAlertmanagers":[]}}'
    address = prometheus(
        [said("prometheus-targets"), said("prometheus-rules"), f"HTTP/1.0 200 OK\r\n\r\n{given}"]
    )
    found = observe.collect(Ask({}, grow({})), address, teller)["observe"]
    assert (found["told"], found["sends"]) == (["chat", "oncall"], 1)
    # Two of Alertmanager 0.25; a third has expired.
    everything, one = found["silences"]
    any_alert = {"name": "alertname", "value": ".+", "regex": True, "equal": True}
    assert (everything["by"], everything["until"]) == ("eve", "2036-01-01 00:00 UTC")
    assert (round(everything["days"]), everything["matchers"]) == (3320, [any_alert])
    assert (one["by"], round(one["days"] * 24, 2)) == ("root", 1.0)
    Observe.model_validate(found)


@pytest.mark.parametrize("answer", ["HTTP/1.0 500 No\r\n\r\noops", "", "\r\n\r\n[{}]"])
def test_an_alertmanager_that_does_not_say_whom_it_tells_is_a_problem(
    prometheus: Serve, said: Said, grow: Grow, answer: str
) -> None:
    address = prometheus([said("prometheus-targets"), said("prometheus-rules")])
    ask = Ask({}, grow({}))
    found = observe.collect(ask, address, prometheus([answer]))["observe"]
    assert found["told"] is None
    assert "Alertmanager on 127.0.0.1" in ask.errors["observe"]


@pytest.mark.parametrize(
    "answer",
    [
        *("HTTP/1.0 500 No\r\n\r\noops", "", '\r\n\r\n{"code":1}', "\r\n\r\n[{}]"),
        '\r\n\r\n[{"status":{"state":"active"},"id":"a","createdBy":"b","startsAt":"never","endsAt":"ever","matchers":[]}]',
    ],
)
def test_silences_that_cannot_be_read_are_a_problem_and_not_none(
    prometheus: Serve, said: Said, grow: Grow, answer: str
) -> None:
    ask = Ask({}, grow({}))
    teller = prometheus(['HTTP/1.0 200 OK\r\n\r\n[{"name":"oncall"}]', answer])
    given = '{"status":"success","data":{"activeAlertmanagers":[]}}'
    address = prometheus(
        [said("prometheus-targets"), said("prometheus-rules"), f"HTTP/1.0 200 OK\r\n\r\n{given}"]
    )
    found = observe.collect(ask, address, teller)["observe"]
    assert (found["told"], found["silences"]) == (["oncall"], None)
    assert "silences of Alertmanager" in ask.errors["observe"]


def test_another_server_on_the_port_is_an_error(prometheus: Serve, said: Said, grow: Grow) -> None:
    with pytest.raises(Unreadable, match="Prometheus answered 404 Not Found"):
        observe.collect(Ask({}, grow({})), prometheus([said("prometheus-missing")]))


def test_a_prometheus_that_is_down_matters_where_it_is_installed(grow: Grow) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    ask = Ask({}, grow({}))
    assert observe.collect(ask, address) == {"observe": None}
    assert ask.errors == {}
    grow({"/usr/bin/prometheus": {"when": {}}})
    assert observe.collect(ask, address) == {"observe": None}
    assert "Prometheus does not listen" in ask.errors["observe"]


def test_a_prometheus_that_says_nothing_is_named(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observe, "PATIENCE", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        host, port = mute.getsockname()
        with pytest.raises(Unreadable, match=f"Prometheus on {host}:{port}: no answer in time"):
            observe.collect(Ask({}, grow({})), (host, port))


@pytest.mark.parametrize("end", ["\x0b", "\x85", "\u2028", " "])
def test_what_a_node_says_of_itself_is_no_line_of_another(end: str) -> None:
    lie = "NodeName=gpu-2 State=IDLE CPUTot=9"
    said = f"NodeName=gpu-1 State=DOWN CPUTot=8 Extra=x{end}{lie}\nNodeName=gpu-2 State=DOWN CPUTot=8\n"
    assert [(n["name"], n["state"]) for n in slurm.nodes(said)] == [
        ("gpu-1", "down"),
        ("gpu-2", "down"),
    ]
    with pytest.raises(Unreadable, match="lists gpu-2 twice"):
        slurm.nodes(said.replace(end + "NodeName", "\nNodeName"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008)",
            {"unit": "RLW_RXPIPE", "severity": "Nonfatal", "link": "13"},
        ),
        (
            "149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x025001c6)",
            {"unit": "NETIR_LINK_EVT", "severity": "Fatal", "link": "00"},
        ),
        ("146, RLW_SRC Fatal", {"unit": "RLW_SRC", "severity": "Fatal"}),
        ("147, x", {}),
        ("45, pid=1, name=A Nonfatal Link 3, Ch 1", {}),
    ],
)
def test_an_nvlink_5_message_says_how_grave_it_is(words: str, said: dict[str, str]) -> None:
    line = f"4,812,0,-;NVRM: Xid (PCI:0000:4e:00): {words}"
    (event,) = xids.events([line], 100.0)
    assert {k: v for k, v in event.items() if k in {"unit", "severity", "link"}} == said


def test_a_flood_of_nonfatal_messages_leaves_the_fatal_one_of_the_same_code() -> None:
    fatal = "4,1,0,-;NVRM: Xid (PCI:0000:4e:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x0)"
    flood = fatal.replace("Fatal", "Nonfatal")
    kept = xids.latest(xids.events([fatal, *[flood] * 100], 100.0))
    assert [event["severity"] for event in kept].count("Fatal") == 1
