"""Slurm and Kubernetes side by side: deployed once, nothing to do twice, work in both, projects closed to each other."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.lab.spec import RackSpec
from appliance.stages.kubernetes.checks.etcd import WRITERS
from boards import BOARDS
from boards.panel import Needs
from tests.integration.deployed import way_in
from tests.integration.rack import PROGRAM, own_name, raised, run_of
from tests.integration.tenants_at_work import ALPHA, BETA, SMALL_SITE
from tests.support.cluster_pods import until
from tests.support.prometheus_queries import Prometheus, queries
from tests.support.rack_cluster import KUBECTL, SECONDS, Cluster

IMAGE = "appliance.local/busybox:1"
WEBHOOK = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: corp}
webhooks:
  - name: corp.example.com
    clientConfig: {url: "https://127.0.0.1:1/x"}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
    sideEffects: None
    admissionReviewVersions: [v1]
"""
RANGE = """
apiVersion: v1
kind: LimitRange
metadata: {name: site}
spec: {limits: [{type: Container, max: {memory: 1Mi}}]}
"""
APPLY = "queue apply"
OBSTACLES = {
    "no-right": (
        f"-n {ALPHA} delete rolebinding appliance-members",
        "cannot create resource",
        APPLY,
    ),
    "no-queue": ("delete queue alpha-train", "the cluster has no queue alpha-train", APPLY),
    "queue-without-gpus": (
        """patch queue alpha-train --type merge -p '{"spec":{"resources":{"gpu":{"limit":0,"quota":0}}}}'""",
        "it has a quota of 0 GPUs",
        APPLY,
    ),
    "foreign-quota": (
        f"-n {ALPHA} create quota site --hard=pods=0",
        "exceeded quota: site",
        f"-n {ALPHA} delete resourcequota site",
    ),
    "foreign-limits": (
        f"-n {ALPHA} create -f - <<'END'{RANGE}END",
        "maximum memory usage per Container",
        f"-n {ALPHA} get limitrange",
    ),
    "foreign-webhook": (
        f"create -f - <<'END'{WEBHOOK}END",
        'failed calling webhook "corp.example.com"',
        "get validatingwebhookconfigurations",
    ),
    "foreign-taint": (
        "taint nodes gpu-2 corp=x:NoSchedule",
        "has the taint corp=x:NoSchedule",
        "taint nodes gpu-2 corp=x:NoSchedule-",
    ),
    "wrong-pool": (
        "label node gpu-2 kai.scheduler/node-pool=other",
        "gpu-2 is in the node pool other",
        APPLY,
    ),
}
"""What is planted by kubectl, what the cause says, and the remedy: of one that shows something, ``ENDS`` is what it leads to."""
ENDS = {
    "foreign-limits": f"-n {ALPHA} delete limitrange site",
    "foreign-webhook": "delete validatingwebhookconfiguration corp",
}
EXPIRE = """
set -e; cd /etc/kubernetes/pki; cp -a apiserver.crt /root/
{ openssl x509 -in apiserver.crt -noout -ext subjectAltName | tail -1 | sed 's/IP Address/IP/g; s/^ */subjectAltName=/'
  echo extendedKeyUsage=serverAuth; } > /root/ext
openssl req -new -key apiserver.key -subj /CN=kube-apiserver -out /root/csr
openssl x509 -req -in /root/csr -CA ca.crt -CAkey ca.key -set_serial 77 -days 0 -extfile /root/ext -out apiserver.crt
pkill -x kube-apiserver
"""
"""Signs the API server's certificate again, valid until now."""
DNS_AGAIN = f"{KUBECTL} -n kube-system delete pod -l k8s-app=kube-dns --wait=false"
NO_PODS = "create quota site --hard=pods=0"
TAINT = "corp=x:NoSchedule"
SLOW_DISK = """
set -e; group=/sys/fs/cgroup/blkio$(sed -n 's/^[0-9]*:blkio://p' /proc/$(pgrep -xo etcd)/cgroup)
for disk in /sys/block/loop*; do echo "$(cat $disk/dev) 8000000" > $group/blkio.throttle.write_bps_device; done
systemd-run -qG --unit=writer -p TimeoutStopSec=1 sh -c "echo 0 > $group/cgroup.procs
while dd if=/dev/zero of=/var/tmp/writer bs=8M count=60 oflag=direct conv=notrunc; do :; done"
"""
"""A disk of 8 MB/s, which etcd shares with a writer. Under control groups of version 1 the limit holds for direct and synchronous writes."""
BUSIEST = f"$(ps -o unit= -p $({WRITERS} | tail -1 | cut -d/ -f3))"
"""The unit of the last process that the remedy lists."""
LISTENER = "import socket, time; s = socket.create_server(('', 10250)); time.sleep(3600)"


@dataclass(frozen=True)
class Breakage:
    """What breaks pods of the platform, and what health has to say about it."""

    plant: str
    check: str
    says: str
    """A piece of the cause."""
    remedy: str = ""
    """A piece of the remedy, typed on the host; none: a deployment alone."""
    typed: str = ""
    """What is typed instead, where the remedy shows what to end."""
    deploys: tuple[str, ...] | None = None
    """Flags of the deployment that the remedy names."""
    host: str = "head"


BREAKAGES = {
    "configuration-gone": Breakage(
        f"{KUBECTL} -n kube-system delete configmap coredns; {DNS_AGAIN}",
        "kubernetes.pods",
        'configmap "coredns" not found',
        "kubeadm init phase addon coredns --config /etc/kubernetes/appliance/kubeadm.yml",
        deploys=("--stage", "kubernetes", "--full", "--hosts", "head"),
    ),
    "certificate-expired": Breakage(
        EXPIRE,
        "kubernetes.certificates",
        "apiserver.crt expired",
        "appliance-certificates --days 365",
    ),
    "quota-used-up": Breakage(
        f"{KUBECTL} -n kube-system {NO_PODS}; {DNS_AGAIN}",
        "kubernetes.pods",
        "exceeded quota: site",
        "kubectl -n kube-system delete resourcequota site; kubectl -n kube-system rollout restart deployment coredns",
    ),
    "quota-of-scheduler": Breakage(
        f"{KUBECTL} -n kai-scheduler {NO_PODS}; {KUBECTL} -n kai-scheduler delete pod -l app=binder --wait=false",
        "scheduler.pods",
        "exceeded quota: site",
        "kubectl -n kai-scheduler delete resourcequota site; kubectl -n kai-scheduler rollout restart deployment binder",
    ),
    "all-tainted": Breakage(
        f"{KUBECTL} taint nodes --all {TAINT}; {DNS_AGAIN}",
        "kubernetes.pods",
        "no host accepts it",
        f"kubectl taint nodes gpu-1 gpu-2 head {TAINT}-",
    ),
    "port-taken": Breakage(
        f'systemctl stop kubelet; systemd-run -q --unit=listener python3 -c "{LISTENER}"; sleep 1; systemctl start kubelet',
        "kubernetes.kubelet",
        "port 10250 is taken by python3",
        "ss -ltnp 'sport = :10250'",
        typed="systemctl stop listener; systemctl restart kubelet",
        host="gpu-2",
    ),
    "network-file-gone": Breakage(
        "rm /etc/cni/net.d/10-appliance.conflist",
        "kubernetes.nodes",
        "cni plugin not initialized",
        deploys=("--hosts", "gpu-2"),
        host="gpu-2",
    ),
    "containerd-stopped": Breakage(
        "systemctl stop containerd",
        "kubernetes.services",
        "the unit is inactive",
        deploys=(),
        host="gpu-2",
    ),
    "etcd-slow": Breakage(
        SLOW_DISK,
        "kubernetes.etcd",
        "ms for each write to its disk",
        WRITERS,
        typed=f"systemctl stop {BUSIEST}",
    ),
    "image-gone": Breakage(
        "name=$(ctr -n k8s.io images ls -q | grep coredns | head -1); ctr -n k8s.io images rm $name; "
        f"{DNS_AGAIN}",
        "kubernetes.stored_images",
        "containerd lacks",
        deploys=("--hosts", "head"),
    ),
}
PAIR = Path(__file__).with_name("kubernetes_projects.yaml")

pytestmark = pytest.mark.rack


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A head, a host of Slurm's and one of Kubernetes's; all stages, and the queues of two projects."""
    spec = RackSpec(own_name("smoke"), 3, kubernetes=True, slurm=1)
    with raised(spec, tmp_path_factory.mktemp("smoke"), Cluster) as found:
        site = found.site / "site.yml"
        site.write_text(site.read_text() + SMALL_SITE)
        deployment = found.deploy("--json")
        assert deployment.end(SECONDS) == 0, deployment.tail
        assert found.program("kubeconfig", "--days", "1").returncode == 0
        yield found


def test_all_stages_are_done_and_another_deployment_has_nothing_to_do(cluster: Cluster) -> None:
    (first,) = cluster.journal("run_started")
    assert set(cluster.states(first["run"]).values()) == {"done"}
    again = cluster.deploy("--json")
    assert again.end(SECONDS) in {0, 3}, again.tail
    states = cluster.states(run_of(again.events))
    assert {"slurm", "kubernetes", "scheduler", "limits", "queues"} <= {s for s, _ in states}
    assert set(states.values()) == {"skipped"}, states
    planned = (PROGRAM, "queue", "plan", "--site", str(cluster.site), "--detailed-exitcode")
    assert run(planned, timeout=120, check=False).returncode == 0


def test_slurm_runs_a_job_on_its_host(cluster: Cluster) -> None:
    assert cluster.said("head", "srun --gres=gpu:8 hostname", 120) == "gpu-1\n"


def test_prometheus_is_told_by_the_cluster_and_by_kai(cluster: Cluster) -> None:
    with way_in(cluster.rack.spec.name, "head") as url:
        _told_by_the_cluster(cluster, Prometheus(url))


def _told_by_the_cluster(cluster: Cluster, prometheus: Prometheus) -> None:
    wanted = {("kubelet", host) for host in cluster.hosts} | {
        *(("apiserver", "head"), ("etcd", "head"), ("kai", "queues"), ("kai", "scheduler"))
    }

    def unseen() -> set[tuple[str, str]]:
        up = (series["metric"] for series in prometheus.series("up == 1"))
        return wanted - {(labels["job"], labels["instance"]) for labels in up}

    until(lambda: not unseen(), "all parts of the cluster are seen by Prometheus")
    of_kai = {(b.name, p.title) for b in BOARDS for p in b.panels if p.needs is Needs.KAI}
    asked = {expr for board, title, expr in queries() if (board, title) in of_kai}
    # KAI counts evictions from the first one on, and here is none.
    asked -= {expr for expr in asked if "evicted" in expr}
    assert len(asked) > 4
    until(lambda: all(map(prometheus.series, asked)), "every panel of KAI's returns series")
    # Pods have mounts that the exporter may not look into, and ports that come and go with them.
    assert (
        prometheus.series('node_filesystem_device_error{mountpoint=~"/var/lib/kubelet/.+"}') == []
    )
    assert prometheus.series('{__name__=~"node_network_.+",device=~"veth.+"}') == []
    assert prometheus.series('node_systemd_unit_state{name="data.mount"}')
    # Its certificate opens metrics alone.
    may = "--as appliance-prometheus auth can-i"
    assert cluster.kubectl(f"{may} get nodes --subresource=metrics 2>/dev/null").strip() == "yes"
    for other in ("list secrets -A", "create pods", "get nodes --subresource=proxy 2>/dev/null"):
        assert cluster.said("head", f"{KUBECTL} {may} {other} || true").strip() == "no"


def test_pods_of_a_project_reach_each_other_and_no_other_project_reaches_them(
    cluster: Cluster,
) -> None:
    """Both ask by name and by address, so that neither the name server nor the service decides it."""
    text = PAIR.read_text().replace("@OWN@", ALPHA).replace("@OTHER@", BETA)
    cluster.kubectl(f"apply -f - <<'END'\n{text.replace('@IMAGE@', IMAGE)}\nEND")
    for space in (ALPHA, BETA):
        cluster.kubectl(f"-n {space} wait --for=condition=Ready --timeout=240s pod/server", 300)
        cluster.kubectl(f"-n {space} wait --for=condition=Ready --timeout=240s pod/client", 300)
    address = cluster.kubectl(f"-n {ALPHA} get pod server -o jsonpath='{{.status.podIP}}'")
    places = (f"server.{ALPHA}.svc.cluster.local", address)
    for place in places:
        finds(cluster, ALPHA, place, "answered")
        finds(cluster, BETA, place, "refused")
    # Who was refused is no lame client: his own project's server answers him.
    finds(cluster, BETA, f"server.{BETA}.svc.cluster.local", "answered")
    judged = json.loads(cluster.program("health", "--json").stdout)["results"]
    assert [r for r in judged if r["status"] == "fail"] == []


def test_a_project_whose_policy_is_gone_is_reached_and_apply_closes_it_again(
    cluster: Cluster,
) -> None:
    """Planted: what keeps others out is the policy, and nothing else."""
    place = f"server.{ALPHA}.svc.cluster.local"
    cluster.kubectl(f"-n {ALPHA} delete networkpolicy appliance")
    finds(cluster, BETA, place, "answered")
    applied = (PROGRAM, "queue", "apply", "--site", str(cluster.site), "--yes")
    assert run(applied, timeout=300, check=False).returncode == 0
    finds(cluster, BETA, place, "refused")


WATCH = "appliance-node-watch"
"""gpu-2 is the host of Kubernetes."""


def test_a_sick_host_takes_no_new_pods_and_says_why_and_pods_there_go_on(cluster: Cluster) -> None:
    running = f"get pods -n {ALPHA} server -o jsonpath='{{.metadata.uid}} {{.status.phase}}'"
    before = cluster.kubectl(running)
    assert before.endswith("Running")
    cluster.hurt("gpu-2", "xid", "79", "2")
    try:
        # By the timer alone.
        until(lambda: "gpu-2" not in cluster.ready(), "gpu-2 is cordoned")
        said = cluster.kubectl("describe node gpu-2")
        assert re.search(r"^  ApplianceFit +False ", said, re.M), said
        assert re.search(r"^  XIDErrors +True ", said, re.M), said
        assert "appliance: health: gpu.xid GPU 2: Xid 79" in said
        (found,) = (r for r in looked(cluster) if r["id"] == "gpu.xid")
        assert found["target"] == "gpu-2/GPU 2"
        assert {r["id"] for r in looked(cluster)} == {"gpu.xid"}
        assert cluster.kubectl(running) == before
    finally:
        cluster.heal("gpu-2", "xid", "79", "2")
    # Nothing says that the fault is gone but that its message is: the host stays out until an operator types the remedy.
    cluster.said("gpu-2", f"{WATCH} act")
    assert "gpu-2" not in cluster.ready()
    (node,) = (r for r in looked(cluster) if r["id"] == "kubernetes.nodes")
    assert node["fix"].endswith(f"on gpu-2: {WATCH} resume")
    cluster.said("gpu-2", f"{WATCH} resume")
    assert "gpu-2" in cluster.ready()
    until(lambda: not looked(cluster), "nothing is wrong after the remedy")


def test_a_host_that_was_repaired_by_hand_is_returned_by_the_next_deployment(
    cluster: Cluster,
) -> None:
    cluster.said("gpu-2", f"umount /scratch; {WATCH} act; systemctl start scratch.mount")
    assert "gpu-2" not in cluster.ready()
    found = looked(cluster)
    assert [r["id"] for r in found] == ["kubernetes.return"], found
    done = cluster.deploy("--stage", "kubernetes", "--hosts", "gpu-2", "--json")
    assert done.end(SECONDS) in {0, 3}, done.tail
    assert "gpu-2" in cluster.ready()
    assert not looked(cluster)


def test_an_operator_s_cordon_outlives_the_host_s_own_verdicts(cluster: Cluster) -> None:
    cluster.kubectl("cordon gpu-2")
    try:
        cluster.said("gpu-2", f"umount /scratch; {WATCH} act; systemctl start scratch.mount")
        cluster.said("gpu-2", f"{WATCH} act; {WATCH} resume")
        assert "gpu-2" not in cluster.ready()
    finally:
        cluster.kubectl("uncordon gpu-2")
    until(lambda: not looked(cluster), "nothing is wrong after the cordon")


def finds(cluster: Cluster, space: str, place: str, wanted: str) -> None:
    """Waits until a project's client is five times in a row answered, or refused: rules follow a change within seconds."""
    once = f"timeout 3 wget -q -O - http://{place}:8080/ >/dev/null 2>&1 && echo answered || echo refused"
    script = (
        f"row=0; for i in $(seq 60); do [ $({once}) = {wanted} ] && row=$((row + 1)) || row=0; "
        "[ $row = 5 ] && exit; sleep 1; done; exit 1"
    )
    cluster.kubectl(f"-n {space} exec client -- sh -c '{script}'", 300)


def looked(cluster: Cluster) -> list[dict[str, str]]:
    """What is wrong, warnings included. An alert follows its check by minutes, and some judge the kernel, which all racks share: test_alerts tries them."""
    said = json.loads(cluster.program("health", "--json").stdout)["results"]
    bad = [r for r in said if r["status"] in {"fail", "error", "warn"} and not r["explained_by"]]
    return [r for r in bad if r["id"] != "observe.alerts"]


@pytest.mark.remedies
@pytest.mark.parametrize("name", OBSTACLES)
def test_what_keeps_a_member_from_work_is_named_and_its_remedy_ends_it(
    cluster: Cluster, name: str
) -> None:
    plant, says, remedy = OBSTACLES[name]
    until(lambda: not looked(cluster), "nothing is wrong before")
    cluster.kubectl(plant)
    found = looked(cluster)
    named = [r for r in found if says in r["cause"]]
    assert named, found
    assert remedy in named[0]["fix"]
    if remedy == APPLY:
        words = (PROGRAM, "queue", "apply", "--site", str(cluster.site), "--yes")
        assert run(words, timeout=300, check=False).returncode == 0
    else:
        cluster.kubectl(remedy)
        if name in ENDS:
            cluster.kubectl(ENDS[name])
    until(lambda: not looked(cluster), "nothing is wrong after the remedy")


@pytest.mark.remedies
@pytest.mark.parametrize("name", BREAKAGES)
def test_what_breaks_pods_of_the_platform_is_named_and_its_remedy_ends_it(
    cluster: Cluster, name: str
) -> None:
    one = BREAKAGES[name]
    until(lambda: not looked(cluster), "nothing is wrong before")
    cluster.said(one.host, one.plant)
    first: list[dict[str, str]] = []

    def is_named() -> bool:
        first[:] = [r for r in looked(cluster) if r["status"] != "warn"]
        return {r["id"] for r in first} == {one.check} and one.says in first[0]["cause"]

    until(is_named, "the check alone names it, above its consequences")
    assert one.remedy in first[0]["fix"]
    if one.remedy:
        given = f"export KUBECONFIG=/etc/kubernetes/admin.conf; {one.typed or one.remedy}"
        cluster.said(one.host, given, 600)
    if one.deploys is not None:
        assert "appliance deploy" in first[0]["fix"]
        assert " ".join(one.deploys) in first[0]["fix"]
        done = cluster.deploy(*one.deploys, "--json")
        assert done.end(SECONDS) in {0, 3}, done.tail
    until(lambda: not looked(cluster), "nothing is wrong after the remedy")
