"""Programs as Jobs of a real API server and its controllers: who dies, hangs, or lacks GPUs is named, and nothing is left.

The scheduler and kubelet are stand-ins: pods are bound to the host they ask for, their programs run here, and the server fetches their logs
from a server of ours, as it does from a kubelet.
"""

import os
import re
import ssl
import subprocess  # noqa: TID251 - what a pod runs is run here
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from appliance.adapters.kubernetes import KubernetesApi, Ref, Resource
from appliance.adapters.pods import NAMESPACE, OtherGpus, PodRemote, PodTemplate, PodWork
from appliance.benchmarks.gpt3 import run as gpt3
from appliance.benchmarks.gpt3.trial import Request
from appliance.checks.check import View
from appliance.errors import ConnectionFailed, DeadlineExceeded
from appliance.models.result import Status
from appliance.stages.kubernetes.site import KubernetesOptions
from tests.integration.api_server import compiled, controlled, running, until
from tests.support.fake_pods import Beside
from tests.support.gpt3_runs import view

pytestmark = pytest.mark.rack

HOSTS = ("gpu-1", "gpu-2")
JSON_PATCH = "application/merge-patch+json"
HURRY = 20.0
"""The door's clock runs so much faster: its bounds are of minutes."""
MEET = """
import os, socket
first, rank = os.environ["MASTER_ADDR"], int(os.environ["RANK"])
port, world = int(os.environ["MASTER_PORT"]), int(os.environ["WORLD_SIZE"])
if rank == 0:
    with socket.create_server((first, port)) as server:
        for _ in range(world - 1):
            with server.accept()[0] as peer:
                peer.sendall(b"go on")
else:
    for _ in range(100):
        try:
            with socket.create_connection((first, port)) as peer:
                print(os.environ["NODE_NAME"], "was told to", peer.recv(99).decode())
                break
        except OSError:
            import time
            time.sleep(0.1)
"""


def killed(program: subprocess.Popen[str]) -> None:
    """With its pipe closed: a later test would be told that it was not. Harmless twice."""
    with program:
        program.kill()


class Hosts:
    """Scheduler and kubelets of all hosts. ``held``: hosts on which no pod is placed."""

    def __init__(self, api: KubernetesApi) -> None:
        self.api, self.held = api, set[str]()
        self.programs: dict[str, subprocess.Popen[str]] = {}
        self.said: dict[str, str] = {}
        self.over = threading.Event()

    def work(self) -> None:
        while not self.over.wait(0.05):
            for pod in self.api.find("v1", "Pod", "appliance/benchmark=true"):
                self.look(pod)

    def look(self, pod: Resource) -> None:
        name, spec = pod["metadata"]["name"], pod["spec"]
        host = spec["nodeSelector"]["kubernetes.io/hostname"]
        if pod["metadata"].get("deletionTimestamp"):
            self.forget(name)
            return
        if host in self.held:
            return
        if not spec.get("nodeName"):
            self.bind(name, host)
        elif name not in self.programs:
            self.begin(name, spec["containers"][0])
        elif pod["status"].get("phase") == "Running" and self.programs[name].poll() is not None:
            self.end(name)

    def forget(self, name: str) -> None:
        if program := self.programs.get(name):
            killed(program)
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
        now = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        self.api.send("DELETE", path, "forget", now, answers=(200, 404))

    def bind(self, name: str, host: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": host}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/binding"
        self.api.send("POST", path, "bind", body, answers=(201, 404, 409))

    def begin(self, name: str, container: Resource) -> None:
        own = {v["name"]: v.get("value", "127.0.0.1") for v in container.get("env", [])}
        self.programs[name] = subprocess.Popen(
            container["command"][2:],
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.status(name, {"phase": "Running", "podIP": "127.0.0.1"})

    def end(self, name: str) -> None:
        self.said[name] = self.programs[name].communicate()[0]
        code = self.programs[name].returncode
        code = code if code >= 0 else 128 - code
        ended = {"name": "work", "ready": False, "restartCount": 0, "image": "x", "imageID": "x"}
        ended["state"] = {"terminated": {"exitCode": code}}
        phase = "Failed" if code else "Succeeded"
        self.status(name, {"phase": phase, "containerStatuses": [ended]})

    def status(self, name: str, status: dict[str, Any]) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/status"
        self.api.send("PATCH", path, "tell", {"status": status}, JSON_PATCH, answers=(200, 404))

    def signal(self, host: str, number: int) -> None:
        """To the program that runs on this host, once it is there."""
        found: list[str] = []

        def there() -> bool:
            pods = self.api.find("v1", "Pod", "appliance/benchmark=true")
            names = [p["metadata"]["name"] for p in pods if p["spec"].get("nodeName") == host]
            found[:] = [n for n in names if n in self.programs and self.programs[n].poll() is None]
            return bool(found)

        until(there)
        self.programs[found[0]].send_signal(number)

    def close(self) -> None:
        """Once ``work`` has ended."""
        for program in self.programs.values():
            killed(program)


class Place(NamedTuple):
    """The cluster, and what stands for its hosts."""

    api: KubernetesApi
    hosts: Hosts

    def door(self, **gpus: int) -> PodRemote:
        counts = {name.replace("_", "-"): count for name, count in gpus.items()}
        return PodRemote(
            Beside(),
            self.api,
            frozenset(HOSTS),
            PodTemplate("x"),
            counts,
            now=lambda: time.monotonic() * HURRY,
            sleep=lambda seconds: time.sleep(seconds / HURRY),
        )

    def offers(self, host: str, gpus: str) -> None:
        status = {"capacity": {"nvidia.com/gpu": gpus}, "allocatable": {"nvidia.com/gpu": gpus}}
        path = f"/api/v1/nodes/{host}/status"
        self.api.send("PATCH", path, "offer", {"status": status}, JSON_PATCH)

    def left(self) -> list[str]:
        return [job["metadata"]["name"] for job in self.api.find("batch/v1", "Job", "")]


@contextmanager
def kubelet(folder: Path, said: Callable[[str], str]) -> Iterator[int]:
    """Answers the API server's question for a pod's log."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = re.match(r"/containerLogs/[^/]+/([^/]+)/", self.path)
            text = said(found[1]).encode() if found else b""
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("pods")
    with (
        running(compiled(), folder) as kubeconfig,
        controlled(compiled(), kubeconfig, folder, "job"),
        KubernetesApi(kubeconfig) as api,
        KubernetesApi(kubeconfig) as own,
    ):
        until(lambda: api.get(Ref("v1", "Namespace", "default")) is not None)
        hosts = Hosts(own)
        with kubelet(folder, lambda name: hosts.said.get(name, "")) as port:
            for name in HOSTS:
                api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
                status = {
                    "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
                }
                path = f"/api/v1/nodes/{name}/status"
                api.send("PATCH", path, "tell", {"status": status}, JSON_PATCH)
            thread = threading.Thread(target=hosts.work, daemon=True)
            thread.start()
            try:
                yield Place(api, hosts)
            finally:
                hosts.over.set()
                thread.join()
                hosts.close()


@pytest.fixture(autouse=True)
def nothing_is_left(place: Place) -> Iterator[None]:
    yield
    until(lambda: not place.left())
    for host in HOSTS:
        place.offers(host, "8")


def script(text: str) -> PodWork:
    return PodWork(("python3", "-c", text), 30)


def test_a_program_runs_on_its_host_and_its_log_and_code_come_back(place: Place) -> None:
    done = place.door().run("gpu-2", ["sh", "-c", "echo hello; exit 3"], timeout=30)
    assert (done.returncode, done.stdout) == (3, "hello\n")


def test_ranks_meet_over_the_network_and_know_their_hosts(place: Place) -> None:
    first, second = place.door(gpu_1=8).gang(HOSTS, script(MEET), 29511)
    assert (first.code, second.code) == (0, 0)
    assert second.said == "gpu-2 was told to go on\n"


def test_the_rank_that_dies_is_told_from_the_one_that_waits(place: Place) -> None:
    killer = threading.Thread(target=place.hosts.signal, args=("gpu-2", 9))
    killer.start()
    waits = "import time; time.sleep(20)"
    first, second = place.door().gang(HOSTS, script(waits), 29512)
    killer.join()
    assert (first.code, second.code, second.host) == (None, 137, "gpu-2")


def test_what_hangs_ends_at_its_bound_and_the_host_is_named(place: Place) -> None:
    began = time.monotonic()
    hangs = "import os, time; time.sleep(99 if os.environ['RANK'] == '1' else 0)"
    with pytest.raises(DeadlineExceeded) as caught:
        place.door().gang(HOSTS, script(hangs), 29513)
    assert caught.value.host == "gpu-2"
    assert time.monotonic() - began < 30


def test_a_host_that_is_not_given_is_named_and_the_other_let_go(place: Place) -> None:
    place.hosts.held.add("gpu-2")
    try:
        with pytest.raises(ConnectionFailed, match="Kubernetes did not place the pod on gpu-2"):
            place.door().gang(HOSTS, script("pass"), 29514)
    finally:
        place.hosts.held.clear()


def test_a_host_with_another_number_of_gpus_is_named_before_anything_runs(place: Place) -> None:
    place.offers("gpu-2", "7")
    with pytest.raises(OtherGpus, match="Kubernetes offers 7 GPUs of gpu-2, which has 8"):
        place.door(gpu_1=8, gpu_2=8).gang(HOSTS, script("pass"), 29515)


def test_the_server_takes_the_job_of_a_training_on_gpus(place: Place) -> None:
    """Its pod is bound and ends at once: here torchrun is what the stand-in leaves of its command."""
    ranks = place.door().gang(
        ("gpu-1",), PodWork(("sh", "-c", "true"), 30, "registry.example/nemo:1"), 29516
    )
    assert ranks[0].code == 0


def test_the_benchmark_says_who_lacks_torch_in_a_pod_as_on_a_host(place: Place) -> None:
    """The rank's own word, through the log of its pod; this machine has no PyTorch."""
    seen = view(2)
    site = seen.site.model_copy(update={"kubernetes": KubernetesOptions()})
    outcome = gpt3.run(View(seen.profile, site, seen.facts), place.door(), Request(nodes=(1,)))
    (loss,) = [r for r in outcome.results if r.id == "gpt3.loss"]
    assert loss.status is Status.NOT_ASSESSED
    assert "no torch on" in loss.cause
