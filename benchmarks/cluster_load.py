"""A site of any number of GPU hosts with its projects, and the work that is put on its cluster."""

import json
import ssl
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from appliance.adapters.kubernetes import Resource
from appliance.config.new_secrets import CLUSTER_KEY, OF_SLURM, write_secrets
from appliance.errors import ApplianceError
from benchmarks.scale_site import MOST_OF_HPC, PROFILE, address

GPUS = 8
CUSTOMER = 350
PROJECTS, PODS, GANG_HOSTS = 200, 10_000, 64
"""At CUSTOMER hosts; a smaller site has as many fewer."""
GANGS = "scale-gangs"
"""Namespace of gangs: no project's, so that their groups are what acceptance makes, too, whatever KAI's release makes of a Job."""
GROUP = "scheduling.run.ai/v2alpha2"
IMAGES = 50
"""Of a node's status, as many as a kubelet names at most."""
AT_ONCE = 8
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Shape:
    """What a site of so many GPU hosts has. ``wide``: GPUs of a pod of a large job."""

    hosts: int

    @property
    def gpus(self) -> int:
        return self.hosts * GPUS

    @property
    def departments(self) -> int:
        return 4 if self.hosts >= 10 else 2

    @property
    def projects(self) -> int:
        each = max(2, round(PROJECTS * self.hosts / CUSTOMER / self.departments))
        return each * self.departments

    @property
    def pods(self) -> int:
        return round(PODS * self.hosts / CUSTOMER)

    @property
    def wide(self) -> int:
        return GPUS if self.hosts >= 10 else GPUS // 2

    @property
    def gang(self) -> int:
        """Pods of the largest job: 512 GPUs of 2,800."""
        return max(2, round(GANG_HOSTS * self.hosts / CUSTOMER))

    @property
    def quota(self) -> int:
        """GPUs of a project."""
        return self.gpus // self.projects

    @property
    def build(self) -> int:
        """Of these, of its interactive queue."""
        return max(1, self.quota // 3)

    def project(self, number: int) -> str:
        return f"p{number:03}"

    def department(self, number: int) -> int:
        return number * self.departments // self.projects


def host(number: int) -> str:
    return f"gpu-{number}"


def write_site(folder: Path, shape: Shape, spare: int = 0) -> None:
    """One control host and the GPU hosts, all Kubernetes'; ``spare``: GPUs the first project is given less."""
    folder.mkdir(parents=True, exist_ok=True)
    bound = f"maximum: {max(128, shape.hosts)}"
    text = PROFILE.read_text().replace(MOST_OF_HPC, bound).replace('kai: "0.16"', 'kai: "0.12"')
    (folder / "profile.yml").write_text(text)
    for name in ("id", "known_hosts"):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text("nobody is asked over ssh\n" if name == "id" else "")
    write_secrets(folder, kubernetes=True)
    hosts = [f"  - {{name: head, roles: [control, storage, login], address: {address(0)}}}"]
    for n in range(shape.hosts):
        owner = "owner: kubernetes"
        hosts.append(f"  - {{name: {host(n)}, roles: [gpu], address: {address(n + 1)}, {owner}}}")
    share = shape.gpus // shape.departments
    groups = [
        f"    - {{name: d{d}, shares: [{{gpu: {{quota: {share}}}}}]}}"
        for d in range(shape.departments)
    ]
    projects: list[str] = []
    for n in range(shape.projects):
        train = shape.quota - shape.build - (spare if n == 0 else 0)
        projects += [
            f"    - name: {shape.project(n)}",
            f"      department: d{shape.department(n)}",
            f"      groups: [team-{n}]",
            "      queues:",
            f"        - {{name: build, work: build, gpu: {{quota: {shape.build}}}, time_limit: 8h, idle_limit: 30m}}",
            f"        - {{name: train, gpu: {{quota: {train}}}}}",
        ]
    (folder / "site.yml").write_text(
        f"version: 1\nname: scale\nprofile: {folder / 'profile.yml'}\n"
        "networks:\n  management: {cidr: 10.98.0.0/15}\n"
        "access: {private_key: id, known_hosts: known_hosts}\n"
        "secrets:\n"
        + "".join(f"  {name}: {{file: {name}}}\n" for name in (*OF_SLURM, CLUSTER_KEY))
        + "hosts:\n"
        + "\n".join(hosts)
        + "\nkubernetes: {}\n"
        "scheduler:\n  departments:\n" + "\n".join(groups) + "\n  projects:\n"
        "" + "\n".join(projects) + "\n"
    )


class Loader:
    """A quick way to many objects, several at once; rows as the server prints them in place of objects."""

    def __init__(self, kubeconfig: Path) -> None:
        said = json.loads(kubeconfig.read_text())
        cluster = said["clusters"][0]["cluster"]
        self._server = cluster["server"]
        self._headers = {"Authorization": f"Bearer {said['users'][0]['user']['token']}"}
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._pool = urllib3.PoolManager(maxsize=AT_ONCE, ssl_context=context)

    def make(self, made: Iterable[tuple[str, Resource]]) -> None:
        """Creates each at its path. Raises ApplianceError."""
        with ThreadPoolExecutor(AT_ONCE) as several:
            list(several.map(lambda one: self._ask("POST", *one), made))

    def clear(self, path: str) -> None:
        """Deletes all of a kind in a namespace."""
        self._ask("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})

    def get(self, path: str) -> Resource:
        return self._ask("GET", path)

    def pods(self, space: str = "", selector: str = "") -> list[tuple[str, str]]:
        """Phase and host of pods, of all namespaces where none is said."""
        where = f"namespaces/{space}/" if space else ""
        form = "application/json;as=Table;v=v1;g=meta.k8s.io"
        path = f"/api/v1/{where}pods?includeObject=None&labelSelector={selector}"
        said = self._ask("GET", path, accept=form)
        columns = [column["name"] for column in said["columnDefinitions"]]
        status, node = columns.index("Status"), columns.index("Node")
        return [(row["cells"][status], row["cells"][node]) for row in said.get("rows") or ()]

    def placed(self, space: str = "", selector: str = "") -> int:
        """How many of them have a host."""
        return sum(node not in ("<none>", "") for _, node in self.pods(space, selector))

    def _ask(
        self, method: str, path: str, body: Resource | None = None, accept: str = "application/json"
    ) -> Resource:
        headers = {**self._headers, "Accept": accept, "Content-Type": "application/json"}
        said = self._pool.request(
            method,
            self._server + path,
            headers=headers,
            body=json.dumps(body).encode() if body is not None else None,
            timeout=60.0,
        )
        found: dict[str, Any] = json.loads(said.data or b"{}")
        if said.status >= 300 and said.status != 409:
            raise ApplianceError(f"{method} {path}: {found.get('message', said.status)}")
        return found


def nodes(shape: Shape) -> Iterable[tuple[str, Resource]]:
    """Hosts as kubelets would describe them; marked as simulated."""
    for number in range(shape.hosts):
        amounts = {"cpu": "96", "memory": "960Gi", "pods": "250", GPU: str(GPUS)}
        labels = {
            "kubernetes.io/hostname": host(number),
            "kubernetes.io/os": "linux",
            "appliance/simulated": "kwok",
            "fabric.topograph.run/tier-1": f"leaf-{number // 20}",
        }
        images = [
            {"names": [f"registry.example.org/a-team/an-image-{n}@sha256:{n:064x}"], "sizeBytes": n}
            for n in range(IMAGES)
        ]
        status = {"capacity": amounts, "allocatable": amounts, "images": images}
        yield (
            "/api/v1/nodes",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": host(number), "labels": labels},
                "status": status,
            },
        )


def gang(name: str, queue: str, pods: int, gpus: int) -> list[tuple[str, Resource]]:
    """A group of which all pods start or none."""
    where = f"/apis/{GROUP}/namespaces/{GANGS}/podgroups"
    spec = {"minMember": pods, "queue": queue, "priorityClassName": "train"}
    group = {"apiVersion": GROUP, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    made: list[tuple[str, Resource]] = [(where, group)]
    for number in range(pods):
        metadata = {
            "name": f"{name}-{number}",
            "labels": {"kai.scheduler/queue": queue, "gang": name},
            "annotations": {"pod-group-name": name},
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(gpus)}
        made.append((f"/api/v1/namespaces/{GANGS}/pods", pod))
    return made


def jobs(shape: Shape, queue: str) -> Iterable[tuple[str, Resource]]:
    """A Job of each project in its queue of that name: build takes its quota, train is all the other pods."""
    for number in range(shape.projects):
        project = shape.project(number)
        each = shape.pods // shape.projects
        pods = shape.build if queue == "build" else each - shape.build
        labels = {"kai.scheduler/queue": f"{project}-{queue}", "load": queue}
        spec: Resource = {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 1000,
            "template": {
                "metadata": {"labels": labels},
                "spec": {**_spec(1 if queue == "build" else shape.wide), "restartPolicy": "Never"},
            },
        }
        if queue == "build":
            spec["template"]["spec"]["priorityClassName"] = "build"
        yield (
            f"/apis/batch/v1/namespaces/kai-{project}/jobs",
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": queue, "labels": labels},
                "spec": spec,
            },
        )


def settled(
    count: Callable[[], int], wanted: int, seconds: float, still: float
) -> tuple[int, float]:
    """How many there are, and after how long the last came: all that are wanted, or no more for ``still`` seconds."""
    began = last = time.monotonic()
    most = 0
    while time.monotonic() - began < seconds and time.monotonic() - last < still:
        asked = time.monotonic()
        found = count()
        if found > most:
            most, last = found, time.monotonic()
        if most >= wanted:
            break
        # A look at ten thousand pods costs the server what it would schedule with.
        time.sleep(max(0.5, 4 * (time.monotonic() - asked)))
    return most, last - began


def _spec(gpus: int) -> dict[str, Any]:
    asked = {"cpu": "100m", "memory": "64Mi", GPU: str(gpus)}
    box = {"name": "work", "image": "simulated", "resources": {"limits": asked, "requests": asked}}
    return {"schedulerName": "kai-scheduler", "priorityClassName": "train", "containers": [box]}
