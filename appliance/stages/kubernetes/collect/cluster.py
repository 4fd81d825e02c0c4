"""kubelet of this host, and the cluster as seen by a control plane; nothing if kubelet is not installed."""

from __future__ import annotations

import base64
import errno
import json
import re
import socket
import time
from contextlib import suppress

from appliance.probe import files, places
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable, kind_of
from appliance.probe.sockets import connected
from appliance.stages.kubernetes.collect import node as node_of
from appliance.stages.kubernetes.collect.api import Api
from appliance.stages.kubernetes.collect.ground import listeners
from appliance.stages.kubernetes.collect.platform import workloads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from appliance.probe.ask import Facts

ADMIN = "/etc/kubernetes/admin.conf"
SETTINGS = "/etc/kubernetes/appliance/kubelet.yml"
PARKED = "/etc/kubernetes/manifests-parked/etcd.yaml"
BACKUP_UNIT = "/etc/systemd/system/appliance-etcd.service"
CERTIFICATE_FOLDERS = ("/etc/kubernetes/pki", "/etc/kubernetes/pki/etcd")
KUBECONFIGS = tuple(
    "/etc/kubernetes/" + name + ".conf"
    for name in ("admin", "super-admin", "controller-manager", "scheduler")
)
"""Kubeconfigs with a client certificate, whose validity is checked like that of files."""
CLIENT = re.compile(r"client-certificate-data:\s*(\S+)")
VALIDITY = re.compile(rb"\x30.\x17\x0d\d{12}Z(?:\x17\x0d(\d{12})Z|\x18\x0f(\d{14})Z)", re.S)
"""Validity of a certificate in DER: UTCTime until 2049, GeneralizedTime from 2050 on (RFC 5280, 4.1.2.5)."""
IMAGES = "/var/lib/appliance/kubernetes/images.json"
"""File with names of the images that stage kubernetes imported from the offline source."""
CONTAINERD = "/run/containerd/containerd.sock"
KUBELET_CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"
KUBELET = ("127.0.0.1", 10248)
PROXY = {"kube-proxy": 10256}
CONTROLLERS = {"kube-controller-manager": 10257, "kube-scheduler": 10259}
"""Ports of /healthz on loopback in kubeadm's configuration; those of the control plane use TLS."""
OWN_PORTS = {"kubelet": 10250, **PROXY, **CONTROLLERS}
COMM = 15
"""Length of a program's name in the kernel (proc(5), /proc/pid/comm)."""
ETCD = ("127.0.0.1", 2381)
"""The address of etcd's metrics and health, only on its own host."""
ETCD_METRICS = {
    "bytes": "etcd_mvcc_db_total_size_in_bytes",
    "in_use": "etcd_mvcc_db_total_size_in_use_in_bytes",
    "quota": "etcd_server_quota_backend_bytes",
}
GAUGE = re.compile(r"^(etcd_\w+) ([0-9.]{1,20}(?:e\+[0-9]{1,2})?)$", re.M)
WAL = re.compile(
    r"^etcd_disk_wal_fsync_duration_seconds_(sum|count) ([0-9.]{1,25}(?:e[+-][0-9]{1,2})?)$", re.M
)
"""Metrics: time that etcd has waited for its disk since its start, and number of writes."""
ALARM = re.compile(r'"reason" ?: ?"ALARM ([A-Z]{1,20})"')
MOST_METRICS = 4 << 20
"""Maximum bytes of metrics; a busy member has a tenth of that."""
PATIENCE = 3.0
RESEND = 1.0
"""Seconds until a possibly lost query is repeated."""
REFUSALS = (errno.EPERM, errno.ECONNREFUSED)
"""kube-proxy rejects packets to a service without endpoints, on this host or on the node that received them."""
NAME = "kubernetes.default.svc.cluster.local"
OWNER = "appliance/owner"
DRAINED = "appliance/drained"
"""Annotation with the reason of the appliance's cordon."""
TIER = "fabric.topograph.run/tier-"
POOL = "kai.scheduler/node-pool"
OF_KUBERNETES = ("node.kubernetes.io/", "node-role.kubernetes.io/", "node.cloudprovider.kubernetes.io/")  # fmt: skip
"""Taints by the state and the role of a node (kubernetes.io, well-known labels, annotations and taints)."""
KEEP_AWAY = ("NoSchedule", "NoExecute")
PRESSURES = {"DiskPressure": "disk", "MemoryPressure": "memory", "PIDPressure": "process IDs"}
"""Conditions of a node by the resource that its kubelet lacks."""
MOST_TAINTS = 10
MOST_TIERS = 16
"""Maximum number of topology tiers, because a kubelet can write any labels on its own node."""
LONGEST = 200
NAME_SERVER = re.compile(r"^clusterDNS:\s*\n\s*-\s*(\S+)", re.M)
FOLDER = re.compile(r"--folder (\S+)")
PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.S)
FAILS = re.compile(r"\[-\](\S+) failed")
"""Mark of failed checks: /healthz and /readyz list all checks, such as "[+]ping ok", if one fails."""
DAY = 86400.0


def collect(
    ask: Ask,
    kubelet: tuple[str, int] = KUBELET,
    port: int = 53,
    member: tuple[str, int] = ETCD,
) -> Facts:
    """The area ``kubernetes``."""
    if not ask.has("kubelet"):
        return {"kubernetes": None}
    said = ask.run(["kubelet", "--version"], 10.0).split()
    found: Facts = {"version": said[-1] if said else "", "kubelet": health(kubelet)}
    server = NAME_SERVER.search(files.text(ask.path(SETTINGS)))
    if server:
        found["dns"] = resolves(server.group(1), port)
    found["certificates"] = _certificates(ask)
    found["services"] = _services(PROXY, tls=False)
    found["images_gone"] = images_gone(ask)
    if files.exists(ask.path(ADMIN)):
        found["services"].update(_services(CONTROLLERS, tls=True))
        before = _etcd_says(member, "/metrics", MOST_METRICS)
        found.update(_cluster(ask))
        found["etcd"] = etcd(member, before or "")
        found.update(_backups(ask))
    # A control host has just asked the same API.
    if found.get("api", "ok") == "ok":
        found.update(node_of.collect(ask))
    _name_strangers(ask, found)
    return {"kubernetes": found}


def _name_strangers(ask: Ask, found: Facts) -> None:
    """Add which other program has the port of a service that does not answer; the service itself only exits."""
    ill = {name for name, said in found["services"].items() if said != "ok"}
    ill |= {"kubelet"} if found["kubelet"] != "ok" else set()
    held = {}
    if ill:
        with suppress(OSError, Unreadable):
            held = listeners(ask)
    for name in sorted(ill):
        port = str(OWN_PORTS[name])
        holder = held.get(port, "")
        if holder and holder != name[:COMM]:
            said = f"; port {port} is taken by {holder}"
            if name == "kubelet":
                found["kubelet"] += said
            else:
                found["services"][name] += said


def images_gone(ask: Ask) -> list[str] | None:
    """Return imported images that containerd has lost; None if none were imported, or if unknown."""
    if not files.exists(ask.path(IMAGES)):
        return None
    try:
        wanted = [str(name) for name in json.loads(files.read(ask.path(IMAGES)))]
        words = ["ctr", "--address", CONTAINERD, "-n", "k8s.io", "images", "ls", "-q"]
        return sorted(set(wanted) - set(ask.run(words, 10.0).split()))
    except (OSError, ValueError, TypeError) as error:
        ask.problem("kubernetes", f"{IMAGES} cannot be read: {error}", at=IMAGES)
    except Unreadable as error:
        ask.problem("kubernetes", error)
    return None


def _services(ports: dict[str, int], *, tls: bool) -> dict[str, str]:
    return {name: health(("127.0.0.1", port), tls=tls) for name, port in ports.items()}


def health(address: tuple[str, int], *, tls: bool = False) -> str:
    """Return the answer of a program of this host at /healthz; "ok" if healthy."""
    try:
        with connected(address, PATIENCE) as plain, _anonymous(plain) if tls else plain as wire:
            answer = _answer(wire)
    except OSError as error:
        return "does not answer: " + (error.strerror or "no answer in time")
    head, _, body = answer.decode("utf-8", "replace").partition("\r\n\r\n")
    code = " ".join(head.split()[1:2])
    if code == "200":
        return "ok"
    if body.startswith("{"):
        # kube-proxy lists times, and nothing that fails.
        return "answers " + code
    return in_short(body) or "no answer"


def _answer(wire: socket.socket, path: str = "/healthz", most: int = 4096) -> bytes:
    """Return up to this many bytes, within ``PATIENCE`` in all. Raises OSError."""
    end = time.monotonic() + PATIENCE
    wire.sendall(b"GET " + path.encode() + b" HTTP/1.0\r\nHost: localhost\r\n\r\n")
    answer = bytearray()
    while len(answer) < most:
        wire.settimeout(max(0.001, end - time.monotonic()))
        part = wire.recv(min(65536, most))
        if not part:
            break
        answer += part
    return bytes(answer)


def etcd(address: tuple[str, int], before: str = "") -> Facts | None:
    """Return size, quota, alarm and disk latency of this host's member; None: no answer. ``before``: its previous metrics."""
    health = _etcd_says(address, "/health?serializable=true", 4096)
    text = None if health is None else _etcd_says(address, "/metrics", MOST_METRICS)
    if health is None or text is None:
        return None
    known = {name: _bytes(value) for name, value in GAUGE.findall(text)}
    alarm = ALARM.search(health)
    found: Facts = {key: known.get(name) for key, name in ETCD_METRICS.items()}
    # Only an answer of its own kind says that there is none.
    none = "" if '"health"' in health else None
    return {
        **found,
        "alarm": alarm.group(1) if alarm else none,
        "sync_ms": sync_ms(before, text),
    }


def sync_ms(before: str, after: str) -> float | None:
    """Return the mean time of a write to disk between two readings; None without writes."""
    try:
        first, last = (
            {name: float(value) for name, value in WAL.findall(t)} for t in (before, after)
        )
        writes = last["count"] - first["count"]
        took = last["sum"] - first["sum"]
    except (KeyError, ValueError):
        return None
    return round(1000 * took / writes, 1) if writes > 0 and took >= 0 else None


def _etcd_says(address: tuple[str, int], path: str, most: int) -> str | None:
    try:
        with connected(address, PATIENCE) as wire:
            return _answer(wire, path, most).decode("utf-8", "replace")
    except OSError:
        return None


def _bytes(said: str) -> int | None:
    """Return the value of a gauge, such as 6.7e+07; None if no database can have that size."""
    try:
        number = float(said)
    except ValueError:
        return None
    return int(number) if number < 2**62 else None


def _anonymous(wire: socket.socket) -> socket.socket:
    """Return a context without verification: scheduler and controller manager create a certificate at each start. The request goes only to loopback and contains no secret."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(wire)


def in_short(said: str) -> str:
    """Return one line of the output of /healthz or /readyz: the failed checks, if listed."""
    fails = ", ".join(name + " failed" for name in FAILS.findall(said))
    return (fails or " ".join(said.split()))[:LONGEST]


def resolves(server: str, port: int = 53) -> str:
    """Return "ok" if the cluster's name server resolves the API's service, else the reason."""
    query = question(NAME)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
            answer = _asked(wire, query, (server, port))
    except OSError as error:
        if error.errno in REFUSALS:
            return server + " is refused: no pod of the name server is ready"
        return server + " does not answer: " + (error.strerror or "no answer in time")
    return verdict(server, query, answer)


def _asked(wire: socket.socket, query: bytes, server: tuple[str, int]) -> bytes:
    """Return the answer. The query is repeated once, because a datagram may be lost. Raises OSError."""
    # Only a connected socket is told that a port is unreachable.
    wire.connect(server)
    try:
        wire.settimeout(RESEND)
        wire.send(query)
        return wire.recv(4096)
    except socket.timeout:  # noqa: UP041 - Python 3.8 and 3.9 know it by no other name
        wire.settimeout(PATIENCE - RESEND)
        wire.send(query)
        return wire.recv(4096)


def question(name: str) -> bytes:
    """Return a query for the address of ``name`` (RFC 1035)."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return b"\x4b\x38\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\x00\x00\x01\x00\x01"


def verdict(server: str, query: bytes, answer: bytes) -> str:
    """Return "ok" if the answer belongs to this query and contains an address, else the reason."""
    if len(answer) < 12 or answer[:2] != query[:2]:
        return server + " answered something else"
    if answer[3] & 15:
        said = f"{server} answered with code {answer[3] & 15} for {NAME}"
        # RFC 1035, 4.1.1: the cluster's own is an authority for its names. Without kube-proxy's rules a query to a
        # service leaves the host, and whoever takes it on the way says what is in the Internet.
        stray = "; this server is outside the cluster, so kube-proxy does not route services on this host"
        return said if answer[2] & 4 else said + stray
    return "ok" if answer[6:8] != b"\x00\x00" else server + " knows no address of " + NAME


def _certificates(ask: Ask) -> dict[str, float]:
    places = [
        folder + "/" + name
        for folder in CERTIFICATE_FOLDERS
        for name in files.names(ask.path(folder))
        if name.endswith(".crt")
    ]
    others = (KUBELET_CERTIFICATE, *KUBECONFIGS)
    found: dict[str, float] = {}
    for place in (*places, *(place for place in others if files.exists(ask.path(place)))):
        try:
            pem = _pem(files.read(ask.path(place)), place)
            if pem is not None:
                found[place] = days_left(pem)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            kind = kind_of(error) if isinstance(error, OSError) else ""
            ask.problem("kubernetes", f"{place}: {why}", kind, place)
    return found


def _pem(text: str, place: str) -> str | None:
    """Return the certificate of a file; of a kubeconfig, the client's, which may be in another file. Raises ValueError."""
    if place not in KUBECONFIGS:
        return text
    inside = CLIENT.search(text)
    return base64.b64decode(inside.group(1)).decode("ascii") if inside else None


def days_left(pem: str) -> float:
    """Return the days until the first certificate expires. Raises ValueError."""
    inside = PEM.search(pem)
    found = VALIDITY.search(base64.b64decode(inside.group(1))) if inside else None
    if not found:
        raise ValueError("no date of expiry")
    import calendar

    short, full = found.groups()
    said, form = (short, "%y%m%d%H%M%S") if short else (full, "%Y%m%d%H%M%S")
    when = calendar.timegm(time.strptime(said.decode("ascii"), form))
    return round((when - time.time()) / DAY, 2)


def _cluster(ask: Ask) -> Facts:
    if files.exists(ask.path(PARKED)):
        said = "stopped for an unfinished restore of etcd"
        return {"api": said, "stopped": True, "nodes": None}
    try:
        api = Api(ask, ADMIN)
        said = api.text("/readyz")
    except Unreadable as error:
        return {"api": in_short(ask.remark("kubernetes", error)), "nodes": None}
    found: Facts = {"api": in_short(said), "nodes": None}
    try:
        found["nodes"] = nodes(api.items("/api/v1/nodes", "Node"))
        found["workloads"] = workloads(ask, api)
    except Unreadable as error:
        ask.problem("kubernetes", error)
    return found


def nodes(items: list[dict[str, Any]]) -> list[Facts]:
    """Return the nodes of a list of the API. Raises Unreadable."""
    try:
        return [node(item) for item in items]
    except (KeyError, TypeError, AttributeError):
        raise Unreadable("the API returned no list of nodes") from None


def node(item: dict[str, Any]) -> Facts:
    """Return the facts of a node of the API."""
    spec, status = item.get("spec", {}), item.get("status", {})
    states = {c.get("type"): c for c in status.get("conditions") or []}
    ready = states.get("Ready", {})
    labels = item["metadata"].get("labels") or {}
    notes = item["metadata"].get("annotations") or {}
    owners = [t.get("value", "") for t in spec.get("taints") or [] if t.get("key") == OWNER]
    return {
        "name": item["metadata"]["name"],
        "ready": ready.get("status") == "True",
        "reason": "" if ready.get("status") == "True" else in_short(str(ready.get("message", ""))),
        "version": str(status.get("nodeInfo", {}).get("kubeletVersion", ""))[:LONGEST],
        "cordoned": bool(spec.get("unschedulable")),
        "cordoned_for": notes.get(DRAINED, "")[:LONGEST] if spec.get("unschedulable") else "",
        "owner": owners[0] if owners else "kubernetes",
        "tiers": {
            key: labels[key] for key in sorted(k for k in labels if k.startswith(TIER))[:MOST_TIERS]
        },
        "pool": labels.get(POOL, ""),
        "taints": [_taint(t) for t in spec.get("taints") or [] if _is_foreign(t)][:MOST_TAINTS],
        "pressure": [
            what for kind, what in PRESSURES.items() if states.get(kind, {}).get("status") == "True"
        ],
    }


def _taint(taint: dict[str, Any]) -> str:
    """Return a taint in kubectl's notation."""
    value = "=" + taint["value"] if taint.get("value") else ""
    return f"{taint.get('key', '')}{value}:{taint.get('effect', '')}"


def _is_foreign(taint: dict[str, Any]) -> bool:
    """Return whether the taint rejects pods and is set by neither Kubernetes nor the appliance."""
    key = str(taint.get("key", ""))
    return taint.get("effect") in KEEP_AWAY and key != OWNER and not key.startswith(OF_KUBERNETES)


def _backups(ask: Ask) -> Facts:
    unit = FOLDER.search(files.text(ask.path(BACKUP_UNIT)))
    if not unit:
        return {}
    folder = ask.path(unit.group(1))
    names = [name for name in files.names(folder) if name.endswith(".snapshot")]
    newest = max((places.status(f"{folder}/{name}").st_mtime for name in names), default=None)
    age = None if newest is None else round((time.time() - newest) / 3600, 2)
    return {"backups": len(names), "backup_age_h": age}
