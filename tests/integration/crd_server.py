"""The current server of custom resources, compiled from Debian unstable's own packages, with its etcd on loopback.

The rack's kube-apiserver is as old as Debian's last whole source of Kubernetes: it knows no rules in CEL and fewer defaults.
This one has no resources but those a definition brings, no /apis, no namespaces and no admission.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.adapters.process import run
from appliance.lab import mounts
from appliance.lab.recipe import CODENAME, digest, machine_sources
from tests.integration.api_server import CACHE, at_work, certificate, etcd_of, kubeconfig_of, ports

SUITE = "sid"
PACKAGES = ("golang-go", "golang-k8s-apiextensions-apiserver-dev", "etcd-server")
KEPT = re.compile(r"golang-|etcd-server$")
"""Of what these need: sources, Go itself and etcd; nothing of it is installed."""
SERVER = "apiextensions-apiserver"
SOURCE = f"usr/share/gocode/src/k8s.io/{SERVER}"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LIMIT_S = 2400.0
NO_CORE = (
    "NamespaceLifecycle",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
)
"""Admission that asks for resources this server does not have."""


def built() -> Path:
    """The folder of both programs; made where the cache lacks it, some five minutes."""
    target = CACHE / f"definitions-{digest(f'{SUITE}{PACKAGES}{LIMIT_S}')}"
    if not target.exists():
        fresh = CACHE / f"compiling-{target.name}"
        mounts.remove(fresh)
        (fresh / "bin").mkdir(parents=True)
        root = _unpacked(fresh)
        _compile(root, fresh / "bin", fresh / "compiled")
        (root / "usr/bin/etcd").rename(fresh / "bin/etcd")
        (fresh / "bin").rename(target)
        mounts.remove(fresh)
    return target


def _unpacked(folder: Path) -> Path:
    """The packages' files, in a tree of their own. Everything is signed by Debian's archive."""
    known = f"[signed-by={KEYRING}]"
    lines = [line.split() for line in machine_sources(lambda _: None).lines]
    apt = folder / "apt"
    for name in ("etc/apt", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
        (apt / name).mkdir(parents=True)
    status, packages, root = apt / "status", folder / "packages", folder / "root"
    status.touch()
    packages.mkdir()
    sources = [f"deb {known} {words[1]} {SUITE} main" for words in lines if words[2] == CODENAME]
    (apt / "etc/apt/sources.list").write_text("\n".join(dict.fromkeys(sources)) + "\n")
    options = ("-qq", "-o", f"Dir={apt}", "-o", f"Dir::State::status={status}")
    asked = ("--simulate", "--no-install-recommends", "install", *PACKAGES)
    run(("apt-get", *options, "update"), timeout=LIMIT_S)
    said = run(("apt-get", *options, *asked), timeout=LIMIT_S).stdout
    names = [name for name in re.findall(r"^Inst (\S+)", said, re.M) if KEPT.match(name)]
    sandbox = ("-o", "APT::Sandbox::User=root")
    run(("apt-get", *options, *sandbox, "download", *names), cwd=packages, timeout=LIMIT_S)
    for file in packages.glob("*.deb"):
        run(("dpkg-deb", "-x", str(file), str(root)), timeout=LIMIT_S)
    return root


def _compile(root: Path, target: Path, scratch: Path) -> None:
    (go,) = (root / "usr/lib").glob("go-*")
    env = {
        "GOROOT": str(go),
        "GOPATH": str(root / "usr/share/gocode"),
        "GOCACHE": str(scratch),
        "GO111MODULE": "off",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-trimpath",
        "CGO_ENABLED": "0",
    }
    build = (str(go / "bin/go"), "build", "-ldflags", "-s -w", "-o", str(target / SERVER), ".")
    run(("nice", "-n", "10", *build), env=env, cwd=root / SOURCE, timeout=LIMIT_S)


@contextmanager
def running(programs: Path, folder: Path) -> Iterator[Path]:
    """etcd and the server, and a kubeconfig for it. It can look up no tokens, so that its user has a certificate."""
    (port,) = ports(1)
    certificate(folder)
    database, etcd = etcd_of(programs, folder)
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    kubeconfig = kubeconfig_of(folder, port, {"client-certificate": cert, "client-key": key})
    server = [
        str(programs / SERVER),
        f"--etcd-servers={database}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--tls-cert-file={cert}",
        f"--tls-private-key-file={key}",
        f"--client-ca-file={cert}",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup",
        f"--disable-admission-plugins={','.join(NO_CORE)}",
        "--enable-priority-and-fairness=false",
    ]
    with at_work(folder, etcd=etcd, server=server):
        yield kubeconfig
