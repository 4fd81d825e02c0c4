"""What a cluster would be built on, read from a captured tree."""

import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

from appliance.probe.ask import Ask
from appliance.stages.kubernetes.collect import ground
from appliance.stages.kubernetes.facts import Ground
from tests.support.probe_trees import grow

__all__ = ["grow"]


Grow = Callable[[dict[str, Any]], str]
SWAPS = "Filename\tType\tSize\tUsed\tPriority\n/swap.img  file 4194300 2048 -2\n/my\\040swap partition 8 0 5\n"
ROUTES = (
    "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    "eno1\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    "eno1\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    "cni0\t0003F40A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    "down0\t0004F40A\t00000000\t0000\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
)
SOCKETS = (
    "  sl  local_address rem_address st\n"
    "   0: 00000000:192B 00000000:0000 0A 0:0 0:0 0 0 0 4711 1\n"
    "   1: 0100007F:192B 0100007F:9999 01 0:0 0:0 0 0 0 4712 1\n"
    "   2: 00000000:0016 00000000:0000 0A 0:0 0:0 0 0 0 4713 1\n"
)
TREE: dict[str, Any] = {
    "/proc/swaps": SWAPS,
    "/proc/self/net/route": ROUTES,
    "/proc/self/net/tcp": SOCKETS,
    "/proc/sys/kernel/osrelease": "6.1.0-1\n",
    "/lib/modules/6.1.0-1/modules.dep": "kernel/net/bridge/br_netfilter.ko.xz: kernel/net/bridge.ko\n",
    "/lib/modules/6.1.0-1/modules.builtin": "kernel/fs/overlayfs/overlay.ko\n",
    "/proc/17/comm": "haproxy\n",
    "/proc/17/fd/3": {"link": "socket:[4711]"},
}


def seen(grow: Grow, **changes: Any) -> Ground:
    tree = {**TREE, **{f"/{path.lstrip('/')}": value for path, value in changes.items()}}
    found = ground.collect(Ask({}, grow({k: v for k, v in tree.items() if v is not None})))
    return Ground.model_validate(found["ground"])


def test_a_fresh_host_tells_what_is_taken(grow: Grow) -> None:
    found = seen(grow)
    assert not found.ours
    assert found.swaps == {"/swap.img": 2048 * 1024, "/my swap": 0}
    assert found.routes == ("10.0.0.0/24 eno1", "10.244.3.0/24 cni0")
    assert found.listeners == {"6443": "haproxy"}
    assert found.modules == {"br_netfilter": "there", "overlay": "loaded"}
    assert found.clusters == ()


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"/lib/modules/6.1.0-1/modules.dep": ""}, ""),
        ({"/proc/sys/kernel/modules_disabled": "1\n"}, ""),
        (
            {"/proc/sys/kernel/modules_disabled": "1\n", "/sys/module/br_netfilter/refcnt": "0\n"},
            "loaded",
        ),
    ],
)
def test_a_module_that_cannot_be_loaded_is_not_there(
    grow: Grow, changes: dict[str, str], state: str
) -> None:
    assert seen(grow, **changes).modules["br_netfilter"] == state


@pytest.mark.parametrize("at", ground.CLUSTERS)
def test_what_a_cluster_left_is_seen(grow: Grow, at: str) -> None:
    assert seen(grow, **{at: "x"}).clusters == (at,)


def test_of_a_host_of_the_cluster_only_swap_and_modules_are_told(grow: Grow) -> None:
    found = seen(grow, **{ground.OURS + "/kubelet.yml": "", ground.CLUSTERS[0]: ""})
    assert found.ours
    assert found.swaps
    assert (found.listeners, found.routes, found.clusters) == ({}, (), ())


@pytest.mark.parametrize("gone", ["/proc/swaps", "/proc/self/net/route", "/proc/self/net/tcp"])
def test_what_cannot_be_read_is_an_error_and_not_nothing(grow: Grow, gone: str) -> None:
    with pytest.raises(OSError, match="No such file"):
        seen(grow, **{gone: None})


def test_whoever_listens_on_this_machine_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(ground, "PORTS", (port,))
        with open(f"/proc/{os.getpid()}/comm") as file:  # noqa: PTH123
            assert ground.listeners(Ask({})) == {str(port): file.read().strip()}
    assert ground.listeners(Ask({})) == {}
