"""Real Kubernetes and KAI on loopback, in a network of this process alone; hosts, GPUs and what runs on them are made up by kwok.

KAI's programs are started as its operator starts them (v0.12.0), with two exceptions: they are processes of this machine, and its
webhooks are left out.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import yaml  # noqa: TID251 - the definitions are data of the benchmark

from appliance.adapters.kubernetes import KubernetesApi, Ref
from appliance.adapters.process import run, spawn
from appliance.errors import ApplianceError
from appliance.lab import kubernetes_build
from appliance.lab.programs import KWOK, THOROUGHLY, built
from benchmarks.scale_network import CLONE_NEWNET
from tests.integration import api_server

KAI = "kai-scheduler"
SPACES = (KAI, "kai-resource-reservation", "kai-scale-adjust")
CONTROLLERS = ",".join(
    f"{name}-controller"
    for name in ("namespace", "node-lifecycle", "resourcequota", "job", "garbage-collector")
)
LOADING = ("--kube-api-qps=300", "--kube-api-burst=500")
"""Of the cluster's own controllers, which make the pods: with their default of 20 calls a second ten thousand would take ten minutes."""
BINDER_CALLS = ("--qps=20", "--burst=100")
"""What KAI's operator tells its binder where its chart says nothing, as it does (pkg/apis/kai/v1/common/client_config.go)."""
CLASSES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
"""Priority classes of KAI's chart."""
DEADLINE_S = 60.0
OWN, KUBELETS = "benchmark", "kwok"
ACCOUNTS = {
    OWN: OWN,
    # As the product's policies know them: what a person may not write on a project's pods, they may.
    KAI: f"system:serviceaccount:{KAI}:{KAI}",
    KUBELETS: "system:kwok",
}
"""Users by the name of their kubeconfig; all may do anything."""

CONFIG = """\
actions: allocate, consolidation, reclaim, preempt, stalegangeviction
tiers:
  - plugins:
      - name: predicates
      - name: proportion
      - name: priority
      - name: nodeavailability
      - name: resourcetype
      - name: podaffinity
      - name: elastic
      - name: kubeflow
      - name: ray
      - name: subgrouporder
      - name: taskorder
      - name: nominatednode
      - name: dynamicresources
      - name: minruntime
      - name: topology
      - name: snapshot
      - name: gpupack
      - name: nodeplacement
        arguments: {gpu: binpack, cpu: binpack}
      - name: gpusharingorder
"""
"""Of the default shard with placement binpack, as the operator writes it."""

STAGES = """\
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: host-is-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
      - key: '.status.conditions.[] | select( .type == "Ready" ) | .status'
        operator: NotIn
        values: ["True"]
  next:
    statusTemplate: |
      conditions:
        - {type: Ready, status: "True", reason: Simulated, lastHeartbeatTime: "{{ Now }}", lastTransitionTime: "{{ Now }}"}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-runs}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
      - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
      - {key: .status.phase, operator: In, values: [Pending]}
  next:
    statusTemplate: |
      phase: Running
      startTime: "{{ Now }}"
      conditions:
        - {type: Ready, status: "True", lastTransitionTime: "{{ Now }}"}
      containerStatuses:
        {{ range .spec.containers }}
        - {name: "{{ .name }}", image: "{{ .image }}", ready: true, restartCount: 0, state: {running: {startedAt: "{{ Now }}"}}}
        {{ end }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-is-gone}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
      - {key: .metadata.deletionTimestamp, operator: Exists}
  next: {delete: true}
"""
"""What becomes of a host and its pods; a pod of kwok runs at once and until it is deleted."""


@dataclass
class Cluster:
    """A cluster at work. ``pids``: its programs by name."""

    folder: Path
    programs: Path
    kubeconfig: Path
    pids: dict[str, int]

    def peaks(self) -> dict[str, float]:
        """The most memory each program had so far, MiB. Raises ApplianceError where one has ended."""
        return {name: _peak(name, pid, self.folder) for name, pid in self.pids.items()}


def separate() -> None:
    """Moves this process, and what it starts, into a network of its own with nothing but loopback."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise ApplianceError(f"no own network: {os.strerror(ctypes.get_errno())}", "run it as root")
    run(("ip", "link", "set", "lo", "up"))


def compiled(progress: Callable[[str], None]) -> tuple[Path, Path]:
    """Folders with the cluster's programs and with kwok, compiled where this machine lacks them."""
    with kubernetes_build.one_build(api_server.CACHE, progress):
        return (
            kubernetes_build.gathered(api_server.CACHE, progress, THOROUGHLY),
            built(api_server.CACHE, replace(KWOK, compiler=THOROUGHLY), progress),
        )


@contextmanager
def at_work(programs: Path, kwok: Path, folder: Path) -> Iterator[Cluster]:
    """A fresh cluster without hosts, with KAI and its definitions."""
    (folder / "scheduler.yml").write_text(CONFIG)
    (folder / "stages.yml").write_text(STAGES)
    (port,) = api_server.ports(1)
    api_server.certificate(folder)
    database, etcd = api_server.etcd_of(programs, folder)
    tokens = folder / "tokens"
    tokens.touch(mode=0o600)
    known = {name: os.urandom(18).hex() for name in ACCOUNTS}
    tokens.write_text(
        "".join(f'{t},{ACCOUNTS[n]},{n},"system:masters"\n' for n, t in known.items())
    )
    configs = {n: api_server.kubeconfig_of(folder, port, {"token": t}, n) for n, t in known.items()}
    kubeconfig = configs[OWN]
    cluster = Cluster(folder, programs, kubeconfig, {})
    with ExitStack() as stack:
        stack.callback(_end, cluster.pids)
        _start(cluster, "etcd", etcd)
        _start(cluster, "kube-apiserver", _server(programs, folder, database, port, tokens))
        with KubernetesApi(kubeconfig) as api:
            _furnish(cluster, api)
        own = ("--leader-elect=false", "--use-service-account-credentials=true", "--secure-port=0")
        manager = f"{programs}/kube-controller-manager"
        about = (f"--kubeconfig={kubeconfig}", f"--controllers={CONTROLLERS}", *own, *LOADING)
        _start(cluster, "kube-controller-manager", [manager, *about])
        for name, words in _kai(folder).items():
            _start(cluster, name, [f"{programs}/{name}", *words], KUBECONFIG=str(configs[KAI]))
        # Without leases the cluster calls every host lost after 50 seconds, and places nothing there.
        alive = ("--manage-all-nodes=true", "--node-lease-duration-seconds=40")
        told = (f"--kubeconfig={configs[KUBELETS]}", f"--config={folder / 'stages.yml'}")
        _start(cluster, KUBELETS, [f"{kwok}/kwok", *alive, *told])
        yield cluster


def until(claim: Callable[[], bool], seconds: float, step: float = 0.5) -> float | None:
    """Seconds until it is so; None where it is not in time."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        with suppress(ApplianceError):
            if claim():
                return time.monotonic() - began
        time.sleep(step)
    return None


def _server(programs: Path, folder: Path, database: str, port: int, tokens: Path) -> list[str]:
    return [
        f"{programs}/kube-apiserver",
        f"--etcd-servers={database}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        # This network has no route by which the server would find an address of its own, and nobody asks for one.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={folder / 'cert.pem'}",
        f"--tls-private-key-file={folder / 'key.pem'}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        "--service-account-issuer=https://127.0.0.1",
        f"--service-account-key-file={folder / 'key.pem'}",
        f"--service-account-signing-key-file={folder / 'key.pem'}",
        "--service-cluster-ip-range=10.96.0.0/24",
        # Pods of kwok need no account of their own.
        "--disable-admission-plugins=ServiceAccount",
    ]


def _kai(folder: Path) -> dict[str, tuple[str, ...]]:
    return {
        "kai-scheduler": (
            f"--scheduler-conf={folder / 'scheduler.yml'}",
            f"--scheduler-name={KAI}",
            f"--namespace={KAI}",
            "--nodepool-label-key=kai.scheduler/node-pool",
            "--partition-label-value=",
            "--listen-address=127.0.0.1:8180",
            "--plugin-server-port=8181",
        ),
        "kai-binder": (
            f"--scheduler-name={KAI}",
            "--metrics-bind-address=127.0.0.1:8280",
            "--health-probe-bind-address=127.0.0.1:8281",
            *BINDER_CALLS,
        ),
        "kai-podgrouper": (
            f"--scheduler-name={KAI}",
            "--metrics-bind-address=127.0.0.1:8380",
            "--health-probe-bind-address=127.0.0.1:8381",
        ),
        "kai-podgroupcontroller": (
            f"--scheduler-name={KAI}",
            "--enable-podgroup-webhook=false",
            "--health-probe-bind-address=127.0.0.1:8481",
        ),
        "kai-queuecontroller": (
            "--enable-webhook=false",
            "--metrics-listen-address=127.0.0.1:8580",
        ),
    }


def _start(cluster: Cluster, name: str, argv: list[str], **more: str) -> None:
    """One program, which ends with this process, however that ends. ``more``: of its environment."""
    env = {"HOME": str(cluster.folder), **more}
    if name == "kai-scheduler":
        env["GOGC"] = "400"
    sealed = ("setpriv", "--pdeathsig", "KILL", "--", *argv)
    cluster.pids[name] = spawn(sealed, env=env, log=cluster.folder / f"{name}.log")


def _furnish(cluster: Cluster, api: KubernetesApi) -> None:
    """Namespaces, definitions and classes that KAI's chart brings."""
    if until(lambda: api.get(Ref("v1", "Namespace", "default")) is not None, DEADLINE_S) is None:
        # One that has ended says why.
        cluster.peaks()
        raise ApplianceError("the API server does not come up")
    for name in SPACES:
        api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    files = sorted((cluster.programs / "crds").glob("*.yaml"))
    wanted = [yaml.safe_load(file.read_text()) for file in files]
    for definition in wanted:
        api.apply(definition)
    for definition in wanted:
        ref = Ref.of(definition)
        if until(partial(api_server.established, api, ref), DEADLINE_S) is None:
            raise ApplianceError(f"{ref} is not served")
    for name, value in CLASSES.items():
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        api.apply({**made, "metadata": {"name": name}, "value": value})


def _end(pids: dict[str, int]) -> None:
    for pid in reversed(pids.values()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _peak(name: str, pid: int, folder: Path) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("VmHWM:"))
    except (OSError, ValueError):
        said = (folder / f"{name}.log").read_text(errors="replace")[-500:]
        raise ApplianceError(f"{name} has ended", said) from None
    return int(line.split()[1]) / 1024
