"""kubelet, name server, certificates and the cluster, from what programs and sockets said."""

import base64
import contextlib
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.certificates import KeyPair
from appliance.adapters.process import run
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.kubernetes.collect import cluster as kubernetes
from tests.support.authority import Authority
from tests.support.cluster_api import EMPTY, Cluster, Serve, serve
from tests.support.probe_trees import grow

__all__ = ["grow", "serve"]


Grow = Callable[[dict[str, Any]], str]
NODES = {
    "items": [
        {
            "metadata": {"name": "head"},
            "spec": {"taints": [{"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}]},
            "status": {
                "conditions": [{"type": "Ready", "status": "True", "message": "posting"}],
                "nodeInfo": {"kubeletVersion": "v1.20.2"},
            },
        },
        {
            "metadata": {
                "name": "gpu-1",
                "labels": {
                    "kai.scheduler/node-pool": "parts",
                    "fabric.topograph.run/tier-1": "leaves-1",
                },
                "annotations": {"appliance/drained": "appliance: MIG on demand"},
            },
            "spec": {
                "unschedulable": True,
                "taints": [
                    {"key": "appliance/owner", "value": "slurm", "effect": "NoExecute"},
                    {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
                    {"key": "corp", "value": "x", "effect": "NoSchedule"},
                    {"key": "corp", "effect": "PreferNoSchedule"},
                ],
            },
            "status": {
                "conditions": [
                    {"type": "DiskPressure", "status": "True"},
                    {"type": "MemoryPressure", "status": "False"},
                    {"type": "Ready", "status": "Unknown", "message": "stopped posting"},
                ]
            },
        },
    ]
}
CLOSED = ("127.0.0.1", 1)
"""A port nothing listens on."""


AUTHORITY = Authority()


def in_days(days: int) -> str:
    """A certificate that lives so long."""
    return AUTHORITY.sign(KeyPair.fresh().request("x", "y"), days)


def kubeconfig(pem: str) -> str:
    """What holds a client's certificate."""
    return (
        f"users:\n- user:\n    client-certificate-data: {base64.b64encode(pem.encode()).decode()}\n"
    )


def certificate(folder: Path) -> ssl.SSLContext:
    """For a server that made up its own."""
    key, made = os.fspath(folder / "key.pem"), os.fspath(folder / "cert.pem")
    words = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -keyout {key} -out {made}"
    run(words.split())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return context


def served(answer: bytes, tls: ssl.SSLContext | None = None) -> tuple[str, int]:
    """A server that gives one connection this answer; its address."""
    plain = socket.create_server(("127.0.0.1", 0))
    listener = tls.wrap_socket(plain, server_side=True) if tls else plain

    def serve() -> None:
        with listener, listener.accept()[0] as wire:
            wire.recv(4096)
            wire.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    address: tuple[str, int] = listener.getsockname()
    return address


def named(reply: Callable[[bytes], bytes], lost: int = 0) -> int:
    """A name server that answers one query, after some that never reach it; its port on the loopback."""
    wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    wire.bind(("127.0.0.1", 0))

    def serve() -> None:
        with wire:
            for _ in range(lost):
                wire.recvfrom(4096)
            query, client = wire.recvfrom(4096)
            wire.sendto(reply(query), client)

    threading.Thread(target=serve, daemon=True).start()
    return int(wire.getsockname()[1])


def test_a_host_without_kubelet_has_nothing_to_tell(grow: Grow) -> None:
    ask = Ask({}, grow({"/etc/hostname": "gpu-1\n"}))
    assert kubernetes.collect(ask) == {"kubernetes": None}
    assert ask.errors == {}


def test_a_control_plane_tells_all(grow: Grow, serve: Serve) -> None:
    cluster = serve({"/readyz": "ok", "/api/v1/nodes": NODES, **EMPTY})
    root = grow(
        {
            "/usr/bin/kubelet": {"when": {"--version": "Kubernetes v1.20.2\n"}},
            "/etc/kubernetes/admin.conf": cluster.kubeconfig(),
            "/etc/kubernetes/scheduler.conf": kubeconfig(in_days(5)),
            "/etc/kubernetes/pki/ca.crt": in_days(30),
            "/etc/kubernetes/pki/ca.key": "",
            "/etc/kubernetes/pki/etcd/server.crt": in_days(365),
            "/var/lib/kubelet/pki/kubelet-client-current.pem": in_days(40) + KeyPair.fresh().pem,
            "/etc/systemd/system/appliance-etcd.service": "ExecStart=x save --folder /b --keep 3\n",
            "/b/20260101T000000Z.snapshot": "x",
            "/b/20260101T000000Z.sha256": "x",
        }
    )
    address = served(b"HTTP/1.0 200 OK\r\n\r\nok")
    found = kubernetes.collect(Ask({}, root), address)["kubernetes"]
    assert (found["version"], found["kubelet"], found["api"]) == ("v1.20.2", "ok", "ok")
    assert {name: round(days) for name, days in found["certificates"].items()} == {
        "/etc/kubernetes/pki/ca.crt": 30,
        "/etc/kubernetes/pki/etcd/server.crt": 365,
        "/var/lib/kubelet/pki/kubelet-client-current.pem": 40,
        "/etc/kubernetes/scheduler.conf": 5,
        "/etc/kubernetes/admin.conf": 1,
    }
    assert found["backups"] == 1
    assert found["backup_age_h"] < 1
    head, gpu = found["nodes"]
    assert head == {
        "name": "head",
        "ready": True,
        "reason": "",
        "version": "v1.20.2",
        "cordoned": False,
        "cordoned_for": "",
        "owner": "kubernetes",
        "tiers": {},
        "pool": "",
        "taints": [],
        "pressure": [],
    }
    assert gpu["pressure"] == ["disk"]
    assert (gpu["pool"], gpu["taints"]) == ("parts", ["corp=x:NoSchedule"])
    assert gpu["cordoned_for"] == "appliance: MIG on demand"
    assert gpu["tiers"] == {"fabric.topograph.run/tier-1": "leaves-1"}
    assert (gpu["ready"], gpu["reason"], gpu["cordoned"], gpu["owner"]) == (
        False,
        "stopped posting",
        True,
        "slurm",
    )


def test_an_api_that_is_down_says_why_and_knows_no_nodes(grow: Grow, tmp_path: Path) -> None:
    root = grow(
        {
            "/usr/bin/kubelet": {"when": {"--version": "Kubernetes v1.35.2\n"}},
            "/etc/kubernetes/admin.conf": Cluster({}, tmp_path, port=1).kubeconfig(),
        }
    )
    found = kubernetes.collect(Ask({}, root), CLOSED)["kubernetes"]
    assert found["api"] == "127.0.0.1:1: Connection refused"
    assert found["nodes"] is None
    assert found["kubelet"].startswith("does not answer")


def test_an_api_that_is_not_ready_says_what_of_it_fails(grow: Grow, serve: Serve) -> None:
    listed = "[+]ping ok\n[-]etcd failed: reason withheld\n[+]log ok\nreadyz check failed"
    root = grow(
        {
            "/usr/bin/kubelet": {"when": {"--version": "Kubernetes v1.35.2\n"}},
            "/etc/kubernetes/admin.conf": serve({"/readyz": (500, listed)}).kubeconfig(),
        }
    )
    assert kubernetes.collect(Ask({}, root), CLOSED)["kubernetes"]["api"] == "etcd failed"


def test_a_control_plane_that_a_restore_has_stopped_is_known_as_such(grow: Grow) -> None:
    root = grow(
        {
            "/usr/bin/kubelet": {"when": {"--version": "Kubernetes v1.35.2\n"}},
            "/etc/kubernetes/admin.conf": "",
            "/etc/kubernetes/manifests-parked/etcd.yaml": "",
        }
    )
    found = kubernetes.collect(Ask({}, root), CLOSED)["kubernetes"]
    assert found["api"] == "stopped for an unfinished restore of etcd"
    assert found["stopped"] is True
    assert found["nodes"] is None


@pytest.mark.parametrize("item", [{}, {"metadata": None}, 1])
def test_what_is_no_node_is_not_taken_for_one(item: Any) -> None:
    with pytest.raises(Unreadable):
        kubernetes.nodes([item])


def test_what_a_kubelet_writes_of_its_node_stays_small() -> None:
    """Else one host's labels and texts would have the whole answer of the control host refused."""
    long = "x" * (1 << 20)
    labels = {f"{kubernetes.TIER}{n:05}": "spine" for n in range(30_000)}
    found = kubernetes.node({
        "metadata": {"name": "gpu-2", "labels": labels, "annotations": {kubernetes.DRAINED: long}},
        "spec": {"unschedulable": True},
        "status": {
            "nodeInfo": {"kubeletVersion": long},
            "conditions": [{"type": "Ready", "status": "False", "message": long}],
        },
    })  # fmt: skip
    assert len(json.dumps(found)) < 4096
    assert list(found["tiers"]) == sorted(labels)[: kubernetes.MOST_TIERS]


def test_kubelet_is_told_in_its_own_words() -> None:
    said = b"[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n"
    assert kubernetes.health(served(b"HTTP/1.0 500 no\r\n\r\n" + said)) == "syncloop failed"
    assert kubernetes.health(served(b"HTTP/1.0 500 no\r\n\r\nno\ngood\n")) == "no good"
    assert kubernetes.health(served(b"")) == "no answer"


def test_the_services_of_a_host_are_asked_at_their_ports(
    grow: Grow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proxy = served(b"HTTP/1.0 503 no\r\n\r\n" + b'{"lastUpdated": "long ago"}')
    scheduler = served(b"HTTP/1.0 200 OK\r\n\r\nok", certificate(tmp_path))
    monkeypatch.setattr(kubernetes, "PROXY", {"kube-proxy": proxy[1]})
    ports = {"kube-scheduler": scheduler[1], "kube-controller-manager": CLOSED[1]}
    monkeypatch.setattr(kubernetes, "CONTROLLERS", ports)
    tree: dict[str, Any] = {"/usr/bin/kubelet": {"when": {"--version": "Kubernetes v1.35.2\n"}}}
    found = kubernetes.collect(Ask({}, grow(tree)), CLOSED)["kubernetes"]["services"]
    assert found == {"kube-proxy": "answers 503"}
    monkeypatch.setattr(kubernetes, "PROXY", {})
    tree["/etc/kubernetes/admin.conf"] = ""
    found = kubernetes.collect(Ask({}, grow(tree)), CLOSED)["kubernetes"]["services"]
    assert found == {
        "kube-scheduler": "ok",
        "kube-controller-manager": "does not answer: Connection refused",
    }


def known(query: bytes) -> bytes:
    head = query[:2] + b"\x84\x80" + query[4:6] + b"\x00\x01\x00\x00\x00\x00"
    return head + query[12:] + b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\x0a\x60\x00\x01"


def test_a_name_that_resolves_is_good() -> None:
    assert kubernetes.resolves("127.0.0.1", named(known)) == "ok"


def test_a_datagram_that_is_lost_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "RESEND", 0.05)
    monkeypatch.setattr(kubernetes, "PATIENCE", 60.0)
    assert kubernetes.resolves("127.0.0.1", named(known, lost=1)) == "ok"


def test_a_name_server_without_a_ready_pod_is_told_as_such() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    said = "127.0.0.1 is refused: no pod of the name server is ready"
    assert kubernetes.resolves("127.0.0.1", port) == said


def test_a_name_server_that_is_silent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "RESEND", 0.05)
    monkeypatch.setattr(kubernetes, "PATIENCE", 0.1)
    assert "does not answer" in kubernetes.resolves("127.0.0.1", named(known, lost=9))


@pytest.mark.parametrize(
    ("head", "complaint"),
    [
        (b"\x84\x83\x00\x01\x00\x00", "code 3 for kubernetes.default.svc.cluster.local"),
        (b"\x81\x83\x00\x01\x00\x00", "this server is outside the cluster"),
        (b"\x84\x80\x00\x01\x00\x00", "knows no address"),
    ],
)
def test_a_name_that_does_not_resolve_is_told(head: bytes, complaint: str) -> None:
    port = named(lambda query: query[:2] + head + b"\x00\x00\x00\x00" + query[12:])
    assert complaint in kubernetes.resolves("127.0.0.1", port)


def test_another_answer_is_no_answer() -> None:
    assert "something else" in kubernetes.resolves("127.0.0.1", named(lambda _: b"zz" * 20))


def test_the_question_is_a_query_for_an_address() -> None:
    query = kubernetes.question("a.bc")
    assert query[2:12] == b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
    assert query[12:] == b"\x01a\x02bc\x00\x00\x01\x00\x01"


def test_the_end_of_a_certificate_whenever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    in_2056 = in_days(365 * 30)
    assert round(kubernetes.days_left(in_2056)) == 365 * 30
    soon, now = in_days(30), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 32 * kubernetes.DAY)
    assert round(kubernetes.days_left(soon)) == -2


@pytest.mark.parametrize(
    "said",
    ["", "unable to load certificate", "-----BEGIN CERTIFICATE-----eA-----END CERTIFICATE-----"],
)
def test_a_certificate_without_a_date_is_no_measurement(said: str) -> None:
    with pytest.raises(ValueError, match=r"no date|padding"):
        kubernetes.days_left(said)


def test_certificates_that_cannot_be_read_are_named(grow: Grow) -> None:
    broken = {
        "/etc/kubernetes/pki/ca.crt": "",
        "/etc/kubernetes/scheduler.conf": "client-certificate-data: e",
        "/var/lib/kubelet/pki/kubelet-client-current.pem": {"link": "gone.pem"},
    }
    root = grow({"/usr/bin/kubelet": {"when": {"--version": "Kubernetes v1.35.2\n"}}, **broken})
    ask = Ask({}, root)
    assert kubernetes.collect(ask, CLOSED)["kubernetes"]["certificates"] == {}
    said = ask.errors["kubernetes"].split("; ")
    assert [word.partition(":")[0] for word in said] == [
        "/etc/kubernetes/pki/ca.crt",
        "/var/lib/kubelet/pki/kubelet-client-current.pem",
        "/etc/kubernetes/scheduler.conf",
    ]
    assert [(p["area"], p["at"]) for p in ask.problems] == [
        ("kubernetes", word.partition(":")[0]) for word in said
    ]


GAUGES = b"""# TYPE etcd_mvcc_db_total_size_in_bytes gauge
etcd_mvcc_db_total_size_in_bytes 6.711296e+07
etcd_mvcc_db_total_size_in_use_in_bytes 20480
etcd_server_quota_backend_bytes 8.589934592e+09
"""
WELL = b'{"health":"true","reason":""}'


def etcd_says(health: bytes, metrics: bytes) -> dict[str, object] | None:
    """What is read of a member that answers so."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener:
            for _ in range(2):
                wire = listener.accept()[0]
                # One that has read enough hangs up.
                with wire, contextlib.suppress(OSError):
                    asked = wire.recv(4096)
                    body = metrics if b"/metrics" in asked else health
                    wire.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + body)

    threading.Thread(target=serve, daemon=True).start()
    return kubernetes.etcd(listener.getsockname())


def test_etcd_says_its_size_its_quota_and_that_all_is_well() -> None:
    known = {"bytes": 67112960, "in_use": 20480, "quota": 8589934592, "alarm": "", "sync_ms": None}
    assert etcd_says(WELL, GAUGES) == known


@pytest.mark.parametrize("alarm", ["NOSPACE", "CORRUPT"])
def test_an_alarm_of_etcd_is_told_by_its_name(alarm: str) -> None:
    said = b'{"health":"false","reason":"ALARM %b"}' % alarm.encode()
    found = etcd_says(said, GAUGES)
    assert found is not None
    assert found["alarm"] == alarm


@pytest.mark.parametrize(
    "metrics",
    [
        b"",
        GAUGES.replace(b"6.711296e+07", b"1e+99"),
        GAUGES.replace(b"6.711296e+07", b"1.2.3"),
        GAUGES.replace(b"6.711296e+07", b"NaN"),
        GAUGES.replace(b"6.711296e+07", b"-1"),
    ],
    ids=["none", "impossible", "no number", "NaN", "negative"],
)
def test_a_size_that_cannot_be_one_is_not_known(metrics: bytes) -> None:
    found = etcd_says(WELL, metrics)
    assert found is not None
    assert found["bytes"] is None


def test_a_program_that_has_taken_a_port_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"10250": "nc", "10256": "kube-proxy", "10257": "kube-controller"}
    monkeypatch.setattr(kubernetes, "listeners", lambda ask: held)
    silent = "does not answer"
    services = {"kube-proxy": silent, "kube-controller-manager": silent, "kube-scheduler": "ok"}
    found = {"kubelet": silent, "services": dict(services)}
    kubernetes._name_strangers(Ask({}), found)
    assert found == {"kubelet": f"{silent}; port 10250 is taken by nc", "services": services}


def test_the_time_of_a_write_is_the_mean_between_two_looks() -> None:
    name = "etcd_disk_wal_fsync_duration_seconds"
    first, last = (f"{name}_sum {took}\n{name}_count {n}\n" for took, n in ((1e-05, 10), (3.0, 14)))
    assert kubernetes.sync_ms(first, last) == 750.0
    # It has written nothing, was started again, or did not answer at first.
    for before, after in ((first, first), (last, first), ("", last)):
        assert kubernetes.sync_ms(before, after) is None


def test_what_is_not_etcd_says_nothing_of_an_alarm() -> None:
    found = etcd_says(b"hello", b"hello")
    assert found == dict.fromkeys(("bytes", "in_use", "quota", "alarm", "sync_ms"))


def test_one_that_answers_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "MOST_METRICS", 100_000)
    found = etcd_says(WELL, GAUGES + b"#" * 10_000_000)
    assert found is not None
    assert found["quota"] == 8589934592


def test_one_that_answers_by_drops_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "PATIENCE", 0.2)
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        with listener:
            wire = listener.accept()[0]
            with wire, contextlib.suppress(OSError):
                while not over.wait(0.01):
                    wire.sendall(b".")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    # It ends by itself only once the other end is gone.
    assert kubernetes.etcd(listener.getsockname()) is None
    over.set()
    thread.join()


def test_a_member_that_does_not_answer_is_not_known() -> None:
    assert kubernetes.etcd(CLOSED) is None
