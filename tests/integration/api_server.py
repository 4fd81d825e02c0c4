"""A real API server with its etcd on loopback, from the programs the rack's cluster is built from."""

import json
import os
import secrets
import signal
import socket
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from appliance.adapters import process
from appliance.adapters.kubernetes import KubernetesApi, Ref
from appliance.errors import ApplianceError
from appliance.lab import kubernetes_build
from appliance.stages.kubernetes.variables.releases import gates

CACHE = Path("/var/cache/appliance/lab")
LIMIT_S = 120.0


@cache
def compiled() -> Path:
    """The programs of the rack's cluster in one folder."""
    with kubernetes_build.one_build(CACHE, quietly):
        return kubernetes_build.gathered(CACHE, quietly)


def established(api: KubernetesApi, definition: Ref) -> bool:
    """Whether the server serves a custom resource by now."""
    conditions = (api.get(definition) or {}).get("status", {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def quietly(said: str) -> None:
    """A test run has no use for progress."""


@contextmanager
def running(
    programs: Path,
    folder: Path,
    people: tuple[str, ...] = (),
    more: tuple[str, ...] = (),
    of_etcd: tuple[str, ...] = (),
) -> Iterator[Path]:
    """etcd and the API server on loopback, with a certificate and a token of their own.

    Each of ``people`` gets a kubeconfig of that name (``file_of``) beside the one that may do anything. ``more`` and ``of_etcd``: arguments of the server and of etcd.
    """
    token = secrets.token_urlsafe(24)
    (port,) = ports(1)
    certificate(folder)
    database, etcd = etcd_of(programs, folder)
    tokens = folder / "tokens"
    tokens.touch(mode=0o600)
    lines = [f'{token},test,test,"system:masters"']
    known = {name: secrets.token_urlsafe(24) for name in people}
    lines += [f"{own},{name},{name}" for name, own in known.items()]
    tokens.write_text("\n".join(lines) + "\n")
    server = [
        os.fspath(programs / "kube-apiserver"),
        f"--etcd-servers={database}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--tls-cert-file={folder / 'cert.pem'}",
        f"--tls-private-key-file={folder / 'key.pem'}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        # As kubeadm has it on the rack (Kubernetes 1.35).
        *(f"--{name}={value}" for name, value in gates(35).items()),
        "--service-account-issuer=https://127.0.0.1",
        f"--service-account-key-file={folder / 'key.pem'}",
        f"--service-account-signing-key-file={folder / 'key.pem'}",
        "--service-cluster-ip-range=10.96.0.0/24",
        "--disable-admission-plugins=ServiceAccount",
        f"--client-ca-file={folder / 'cert.pem'}",
        *more,
    ]
    with at_work(folder, etcd=[*etcd, *of_etcd], server=server):
        for name, own in known.items():
            kubeconfig_of(folder, port, {"token": own}, file_of(name))
        yield kubeconfig_of(folder, port, {"token": token})


def file_of(name: str) -> str:
    """A kubeconfig's name by whom it is for: the client takes a colon for the end of one of several files."""
    return name.replace(":", ".")


def etcd_of(programs: Path, folder: Path) -> tuple[str, list[str]]:
    """Where etcd of one member will listen on loopback, and the command that starts it."""
    clients, peers = (f"http://127.0.0.1:{port}" for port in ports(2))
    return clients, [
        os.fspath(programs / "etcd"),
        *("--data-dir", os.fspath(folder / "etcd")),
        *("--listen-client-urls", clients),
        *("--advertise-client-urls", clients),
        *("--listen-peer-urls", peers),
        *("--initial-advertise-peer-urls", peers),
        *("--initial-cluster", f"default={peers}"),
    ]


@contextmanager
def at_work(folder: Path, **programs: list[str]) -> Iterator[None]:
    """Programs started one after the other, each with a log of its name, and ended in the opposite order."""
    started: list[int] = []
    try:
        for name, argv in programs.items():
            started.append(process.spawn(argv, log=folder / f"{name}.log"))
        yield
    finally:
        for pid in reversed(started):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@contextmanager
def controlled(
    programs: Path, kubeconfig: Path, folder: Path, names: str, *more: str
) -> Iterator[None]:
    """These controllers of kube-controller-manager at work, once the server answers; ``more``: its arguments."""
    with KubernetesApi(kubeconfig) as api:
        until(lambda: api.get(Ref("v1", "Namespace", "default")) is not None)
    argv = [
        os.fspath(programs / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--controllers={names}",
        "--leader-elect=false",
        # As kubeadm has it: each controller is an account of its own, by which policies know it.
        "--use-service-account-credentials=true",
        "--secure-port=0",
        *more,
    ]
    with at_work(folder, controllers=argv):
        yield


def kubeconfig_of(folder: Path, port: int, user: dict[str, str], name: str = "kubeconfig") -> Path:
    """A file for the server on this port, whose certificate is its own authority."""
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority": os.fspath(folder / "cert.pem"),
    }
    file = folder / name
    file.touch(mode=0o600)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "me", "user": user}],
    }
    file.write_text(json.dumps(document))
    return file


def as_of_kubeadm(kubeconfig: Path) -> str:
    """The same as kubeadm writes it: with the certificate of the client that may do anything."""
    (cluster,) = json.loads(kubeconfig.read_text())["clusters"]
    pem, key = (
        b64encode(kubeconfig.with_name(name).read_bytes()).decode()
        for name in ("cert.pem", "key.pem")
    )
    return (
        f"clusters:\n- cluster:\n    certificate-authority-data: {pem}\n"
        f"    server: {cluster['cluster']['server']}\n  name: it\nusers:\n- name: me\n  user:\n"
        f"    client-certificate-data: {pem}\n    client-key-data: {key}\n"
    )


def certificate(folder: Path) -> None:
    """``cert.pem`` and ``key.pem`` of a server on loopback, and of a client that may do anything."""
    words = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /O=system:masters/CN=test"
        f" -addext subjectAltName=IP:127.0.0.1 -keyout {folder}/key.pem -out {folder}/cert.pem"
    )
    process.run(words.split())


def ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [s.getsockname()[1] for s in held]
    finally:
        for s in held:
            s.close()


def until(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        with suppress(ApplianceError):
            if claim():
                return
        time.sleep(0.2)
    raise AssertionError("the API server did not come up in time")
