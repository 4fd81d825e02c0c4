"""A cluster on hosts as Debian's installer leaves them: packages from repositories laid out as the makers', images from a registry."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.config.new_secrets import write_secrets
from appliance.lab import archives, image, ssh
from appliance.lab.kubernetes_build import CONTROL_IMAGES, HOST_IMAGES, PLACE
from appliance.lab.programs import CONTAINERD, KUBERNETES
from appliance.lab.spec import CLUSTER_LAYER, RackSpec
from tests.integration import image_registry, maker_packages
from tests.integration.image_registry import Registry
from tests.integration.maker_repository import Makers, served
from tests.integration.rack import Bench, Event, own_name, raised, run_of

pytestmark = pytest.mark.cluster

PORT = 8078
SECONDS = 1800.0
CONTROL = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "coredns")
NAMES = {name: CONTROL_IMAGES[name] for name in CONTROL} | {
    name: HOST_IMAGES[name] for name in ("kube-proxy", "pause")
}
"""What kubeadm asks for by name."""
HEAD, *OTHERS = "node-a17", "node-b03", "node-b04"
TRUST = "/usr/local/share/ca-certificates/registry.crt"
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  nodeName: {host}
  restartPolicy: Never
  tolerations: [{{key: appliance/owner, operator: Exists}}]
  containers:
    - {{name: it, image: "{image}", command: [sh, -c, "{script}"]}}
"""
SITE = """
version: 1
name: makers
profile: cost-efficient
simulated: [gpu, fabric]
access: {{user: installer, become: true, private_key: ../account/id_ed25519, known_hosts: ../account/known_hosts}}
networks: {{management: {{cidr: {network}, gateway: {gateway}}}}}
hosts:
  - {{name: node-a17, roles: [control, storage, login], address: {a}}}
  # Of Slurm: nothing registers GPUs on hosts without a driver.
  - {{name: node-b03, roles: [gpu], address: {b}, owner: slurm}}
  - {{name: node-b04, roles: [gpu], address: {c}, owner: slurm}}
secrets:
  munge_key: {{file: secrets/munge_key}}
  slurmdbd_password: {{file: secrets/slurmdbd_password}}
  kubernetes_encryption_key: {{file: secrets/kubernetes_encryption_key}}
repositories:
  containerd: {{mirror: "{mirror}/docker", fingerprint: {fingerprint}}}
  kubernetes: {{mirror: "{mirror}/kubernetes", fingerprint: {fingerprint}}}
kubernetes:
  version: "{version}"
  containerd: "2.3"
  network: bridge
  device_plugin: own
  registry_mirrors: {{registry.k8s.io: "{registry}"}}
"""


@dataclass
class Plain(Bench):
    """Hosts nobody prepared, and their site."""

    def said(self, host: str, script: str, seconds: float = 60) -> str:
        """What a script printed on a host; it must end with 0."""
        done = ssh.on_host(self.rack, self.rack.host(host), (script,), timeout=seconds)
        assert done.returncode == 0, f"{host}: {script}: {done.stdout} {done.stderr}"
        return done.stdout.strip()

    def kubectl(self, words: str, seconds: float = 60) -> str:
        """What kubectl printed on the control host."""
        return self.said(HEAD, f"KUBECONFIG=/etc/kubernetes/admin.conf kubectl {words}", seconds)

    def staged(self, stage: str) -> list[Event]:
        """A deployment of one stage, to its end; its events."""
        deployment = self.deploy("--json", "--stage", stage)
        assert deployment.end(SECONDS) in {0, 3}, deployment.tail
        return deployment.events

    def pod(self, name: str, host: str, image: str, script: str = "true") -> None:
        """Starts a pod on a host."""
        text = POD.format(name=name, host=host, image=image, script=script)
        self.kubectl(f"apply -f - <<'END'\n{text}\nEND")

    def ended(self, name: str) -> str:
        """What a pod wrote, once it came to a good end."""
        good = "jsonpath='{.status.phase}'=Succeeded"
        self.kubectl(f"wait --for={good} --timeout=240s pod/{name}", 300)
        return self.kubectl(f"logs {name}")

    def why_not(self, name: str) -> str:
        """Why a pod's image is not there, once kubelet says so."""
        reason = "{.status.containerStatuses[0].state.waiting.reason}"
        ask = f"kubectl get pod {name} -o jsonpath='{reason}' | grep -E 'ErrImagePull|ImagePullBackOff'"
        wait = f"for i in $(seq 120); do {ask} && exit; sleep 1; done; exit 1"
        self.said(HEAD, f"export KUBECONFIG=/etc/kubernetes/admin.conf; {wait}", 240)
        return self.kubectl(f"get events --field-selector involvedObject.name={name} -o json")


@dataclass(frozen=True)
class World:
    """The cluster, where its packages and images came from, and its first deployment."""

    bench: Plain
    makers: Makers
    registry: Registry
    digests: dict[str, str]

    def image(self, name: str) -> str:
        """An image by the registry's own address and its digest."""
        return f"{self.registry.address}:{image_registry.PORT}/{name}@{self.digests[name]}"


def _filled(registry: Registry, folder: Path) -> dict[str, str]:
    """Pushes what kubeadm asks for, and two of our own; digests by name."""
    layers = image.layers(lambda _: None, cluster=True)
    images = Path(layers[CLUSTER_LAYER]) / PLACE / "images"
    for name, full in NAMES.items():
        (archive,) = images.glob(f"*/{name}.tar")
        path, _, tag = full.removeprefix("registry.k8s.io/").rpartition(":")
        registry.push(archive, path, tag)
    busybox = images / "hosts/busybox.tar"
    (folder / "tree").mkdir(parents=True)
    (folder / "tree/word").write_text("of this test")
    archives.image(folder / "tree", "spoilt", ("/word",), folder / "spoilt.tar")
    return {
        "busybox": registry.push(busybox, "busybox", "1"),
        "spoilt": registry.push(folder / "spoilt.tar", "spoilt", "1"),
    }


def _site(bench: Plain, makers: Makers, registry: Registry) -> None:
    """As its owner writes it."""
    write_secrets(bench.site / "secrets", kubernetes=True)
    rack = bench.rack
    text = SITE.format(
        network=rack.network,
        gateway=rack.gateway,
        **dict(zip("abc", (host.address for host in rack.hosts), strict=True)),
        mirror=f"http://{rack.gateway}:{PORT}",
        fingerprint=makers.fingerprint,
        version=KUBERNETES.version,
        registry=registry.url,
    )
    (bench.site / "site.yml").write_text(text)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("makers")
    spec = RackSpec(own_name("plainkube"), 3, "cost-efficient", kubernetes=True, plain="12")
    with raised(spec, folder / "logs", Plain) as bench:
        address = str(bench.rack.gateway)
        with (
            served(folder / "served", folder / "keyring", address, PORT) as makers,
            image_registry.serving(folder / "registry", address) as registry,
        ):
            makers.publish_packages("1.35", list(maker_packages.kubernetes()))
            (folder / "containerd").mkdir()
            makers.publish_docker([maker_packages.containerd(folder / "containerd")])
            digests = _filled(registry, folder / "images")
            certificate = registry.certificate.read_text()
            for host in bench.hosts:
                told = f"cat >{TRUST} <<'END'\n{certificate}END\nupdate-ca-certificates >/dev/null"
                bench.said(host, told)
            _site(bench, makers, registry)
            bench.staged("base")
            bench.staged("kubernetes")
            yield World(bench, makers, registry, digests)


def test_every_host_is_ready_with_the_makers_packages_held(world: World) -> None:
    bench = world.bench
    nodes = json.loads(bench.kubectl("get nodes -o json"))["items"]
    told = {
        node["metadata"]["name"]: (
            next(c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"),
            node["status"]["nodeInfo"]["kubeletVersion"],
            node["status"]["nodeInfo"]["containerRuntimeVersion"],
        )
        for node in nodes
    }
    runtime = f"containerd://{CONTAINERD.version}"
    assert told == dict.fromkeys(bench.hosts, ("True", f"v{KUBERNETES.version}", runtime))
    for host in bench.hosts:
        held = set(bench.said(host, "apt-mark showhold").split())
        assert {"containerd.io", "kubeadm", "kubectl", "kubelet"} <= held
        for package, place in (("kubelet", "kubernetes/v1.35/deb"), ("containerd.io", "docker")):
            assert f":{PORT}/{place}" in bench.said(host, f"apt-cache policy {package}")


def test_hosts_began_without_anything_of_the_racks_own_image(world: World) -> None:
    base = Path(world.bench.rack.layers["base"])
    assert set(world.bench.rack.layers) <= {"base", "simulator"}
    for name in ("opt/appliance", "usr/bin/kubelet", "usr/bin/containerd", "usr/sbin/runc"):
        assert not (base / name).exists()


@pytest.mark.parametrize("host", OTHERS)
def test_a_pod_comes_by_digest_and_resolves_a_name(world: World, host: str) -> None:
    name, script = f"asks-{host}", "nslookup kubernetes.default.svc.cluster.local"
    world.bench.pod(name, host, world.image("busybox"), script)
    assert "10.96.0.1" in world.bench.ended(name)
    status = json.loads(world.bench.kubectl(f"get pod {name} -o json"))["status"]
    assert status["containerStatuses"][0]["imageID"].endswith(world.digests["busybox"])


def test_a_digest_the_registry_does_not_have_is_not_replaced_by_another_image(world: World) -> None:
    unknown = world.image("busybox")[:-4] + "0000"
    world.bench.pod("unknown", OTHERS[0], unknown)
    assert "not found" in world.bench.why_not("unknown")


def test_an_image_that_was_changed_in_the_registry_does_not_run(world: World) -> None:
    data = world.registry.folder / "data/docker/registry/v2/blobs/sha256"
    digest = world.digests["spoilt"]
    manifest = json.loads((data / digest[7:9] / digest[7:] / "data").read_text())
    world.registry.spoil(manifest["layers"][0]["digest"])
    world.bench.pod("spoilt", OTHERS[0], world.image("spoilt"))
    assert "unexpected commit digest" in world.bench.why_not("spoilt")


def test_another_deployment_changes_nothing(world: World) -> None:
    report = world.bench.report(run_of(world.bench.staged("kubernetes")))
    assert {o["state"] for o in report["outcomes"]} == {"skipped"}
