"""What the probe finds of other hosts: packets, ports, a file server that hangs, name servers."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from appliance.probe.ask import Ask, Refused
from appliance.probe.collectors import neighbours

Grow = Callable[[dict[str, Any]], str]


def asked(root: str, *ports: int) -> dict[str, Any]:
    peer = {"name": "localhost", "address": "127.0.0.1", "own": True, "ports": list(ports)}
    found: dict[str, Any] = neighbours.collect(Ask({"peers": [peer]}, root))["neighbours"]
    return found


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as door:
        yield door


def test_an_echo_request_has_the_checksum_of_rfc_792() -> None:
    packet = neighbours.echo(b"\x12\x34", 5, 56)
    total = sum(struct.unpack(f">{len(packet) // 2}H", packet))
    assert ((total >> 16) + total) & 0xFFFF == 0xFFFF
    assert len(packet) == 64


def test_only_the_answer_to_our_own_request_counts() -> None:
    head = bytes([0x45]) + bytes(19)
    assert neighbours.reply(head + b"\0\0\0\0\x12\x34\0\x05", b"\x12\x34") == 5
    assert neighbours.reply(head + b"\0\0\0\0\x99\x99\0\x05", b"\x12\x34") is None
    assert neighbours.reply(head + b"\x08\0\0\0\x12\x34\0\x05", b"\x12\x34") is None
    assert neighbours.reply(b"", b"\x12\x34") is None


def test_an_open_port_and_one_nobody_listens_on(grow: Grow, listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        gone = other.getsockname()[1]
    (peer,) = asked(grow({}), port, gone)["peers"]
    assert [one["state"] for one in peer["ports"]] == ["open", "refused"]
    assert peer["resolved"] == ["127.0.0.1"]
    assert peer["small"] is None


@pytest.mark.parametrize(("answers", "state"), [(True, "open"), (False, "hung")])
def test_a_file_server_must_answer_a_call(
    answers: bool,
    state: str,
    grow: Grow,
    listener: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = listener.getsockname()[1]
    monkeypatch.setattr(neighbours, "NFS_PORT", port)

    def serve() -> None:
        one, _ = listener.accept()
        if answers:
            one.send(one.recv(64))
        served.append(one)

    served: list[socket.socket] = []
    threading.Thread(target=serve, daemon=True).start()
    (peer,) = asked(grow({}), port)["peers"]
    assert peer["ports"] == [{"port": port, "state": state}]
    for one in served:
        one.close()


def test_name_servers_of_resolv_conf_and_behind_the_stub(grow: Grow) -> None:
    root = grow({"/etc/resolv.conf": "# x\nnameserver 127.0.0.9\nsearch a\nnameserver 127.0.0.8\n"})
    said = asked(root)["name_servers"]
    assert said == [
        {"address": "127.0.0.9", "answers": False, "route": True},
        {"address": "127.0.0.8", "answers": False, "route": True},
    ]
    grow(
        {
            "/etc/resolv.conf": "nameserver 127.0.0.53\n",
            "/run/systemd/resolve/resolv.conf": "nameserver 127.0.0.7\n",
        }
    )
    assert [one["address"] for one in asked(root)["name_servers"]] == ["127.0.0.7"]


def test_without_a_name_server_there_is_nothing_to_ask(grow: Grow) -> None:
    assert asked(grow({}))["name_servers"] == []


def test_who_answers_to_an_address(grow: Grow) -> None:
    table = (
        "IP address  HW type  Flags  HW address  Mask  Device\n"
        "10.0.0.11  0x1  0x2  02:00:00:00:00:0b  *  eth0\n"
        "10.0.0.12  0x1  0x0  00:00:00:00:00:00  *  eth0\n"
    )
    root = grow({"/proc/net/arp": table})
    assert neighbours._macs(Ask({}, root)) == {"10.0.0.11": "02:00:00:00:00:0b"}
    assert neighbours._fixed(Ask({}, root)) == []


def test_an_entry_that_someone_has_written(grow: Grow) -> None:
    row = "10.0.0.12  0x1  0x6  02:00:00:00:00:99  *  eth0\n"
    root = grow({"/proc/net/arp": f"IP address  HW type\n{row}"})
    entry = {"address": "10.0.0.12", "mac": "02:00:00:00:00:99", "device": "eth0"}
    assert neighbours._fixed(Ask({}, root)) == [entry]


def test_peers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(Refused, match="peers"):
        Ask({"peers": [{"name": "x"}]})


RULESET = """table inet corp { # handle 7
	chain in { # handle 1
		type filter hook input priority filter - 10; policy accept;
		tcp dport 6818 drop # handle 2
		tcp dport { 2049, 6000-6002 } counter packets 1 bytes 60 reject # handle 3
		ip saddr 10.0.0.5 drop # handle 4
		tcp dport 22 accept # handle 5
		tcp dport 10000-65535 drop # handle 8
	}

	chain out { # handle 6
		type filter hook output priority filter; policy drop;
	}
}
"""


OF_KUBE_PROXY = """table ip6 filter { # handle 11
	chain KUBE-FORWARD { # handle 14
		ct state invalid xt match nfacct counter packets 0 bytes 0 drop # handle 23
	}
	chain INPUT { # handle 4
		type filter hook input priority filter; policy accept;
		counter packets 4757 bytes 6606171 jump KUBE-FIREWALL # handle 21
		udp dport 123 drop # handle 30
	}
}
"""


def test_a_rule_that_kube_proxy_would_write_again_is_no_obstacle() -> None:
    found = [one["by"] for one in neighbours.blocks("ip6 filter", OF_KUBE_PROXY)]
    assert found == ["rule ip6 filter INPUT handle 30"]


def test_what_a_table_refuses_is_told_in_the_words_that_remove_it() -> None:
    found = [(one["by"], one["ports"]) for one in neighbours.blocks("inet corp", RULESET)]
    assert found == [
        ("rule inet corp in handle 2", [6818]),
        ("rule inet corp in handle 3", [2049, 6000, 6001, 6002]),
        ("rule inet corp in handle 4", []),
        ("rule inet corp in handle 8", [50001]),
        ("chain inet corp out", []),
    ]
