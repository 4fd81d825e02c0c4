"""Sections of site.yml come and go: both schedulers, Kubernetes alone, both, Slurm alone, both; nothing of what left stays."""

import json
import re
from collections.abc import Iterator

import pytest

from appliance.lab.spec import RackSpec
from tests.integration.rack import own_name, raised, run_of
from tests.integration.tenants_at_work import SMALL_SITE
from tests.support.cluster_pods import IMAGE, until
from tests.support.rack_cluster import SECONDS, Cluster

pytestmark = pytest.mark.cluster

SLURM = "\nslurm: {ssh_needs_job: false}\n"
OWNER = "    owner: slurm\n"
SLURM_SECRETS = """\
  munge_key: {file: secrets/munge_key}
  slurmdbd_password: {file: secrets/slurmdbd_password}
"""
KEY = "  kubernetes_encryption_key: {file: secrets/kubernetes_encryption_key}\n"
PLACES = "/etc /usr /opt /srv /root /home /var /run"
SPARED = (
    # Of the rack: what hosts could install, and the programs of its cluster, as a site's own mirror and folder of images.
    *("/opt/appliance/*", "/var/cache/*", "/var/lib/apt/*", "/usr/share/appliance-lab/*"),
    # Disks that the rack mounts there; below it is seen that nothing is on them.
    *("/var/lib/kubelet", "/var/lib/containerd"),
    # Saved on purpose, and records of what was done.
    *("/var/backups/*", "/var/lib/appliance/*", "/var/log/*", "/var/lib/prometheus/*"),
)
POD = f"""
apiVersion: v1
kind: Pod
metadata: {{name: at-work, namespace: default}}
spec:
  terminationGracePeriodSeconds: 1
  tolerations: [{{operator: Exists}}]
  containers: [{{name: it, image: {IMAGE}, command: [sleep, "3600"]}}]
"""


class Sections(Cluster):
    """A rack whose site loses sections and gets them back."""

    whole = ""

    def choose(self, *, slurm: bool = True, kubernetes: bool = True) -> None:
        """Edits site.yml as docs/operations.md says: a section that is deleted goes, with what only it needs."""
        text = self.whole
        if not slurm:
            text = text.replace(SLURM, "\n").replace(SLURM_SECRETS, "")
        if not kubernetes:
            text = re.sub(r"(?ms)^# Compiled from.*?(?=^slurm:)", "", text).replace(KEY, "")
        if not (slurm and kubernetes):
            text = text.replace(OWNER, "")
        (self.site / "site.yml").write_text(text)

    def deployed(self) -> None:
        """A deployment that ends well, after which nothing is to do and health passes."""
        deployment = self.deploy("--json")
        assert deployment.end(SECONDS) == 0, deployment.tail
        plan = json.loads(self.program("plan", "--json").stdout)
        idle = {"skip", "not_concerned"}
        left = [c for c in plan["cells"] if c["action"] not in idle and c["stage"] != "validate"]
        assert left == []
        health = self.program("health")
        assert "PASSED" in health.stdout, health.stdout
        again = self.deploy("--json")
        assert again.end(SECONDS) == 0, again.tail
        states = {
            s for (stage, _), s in self.states(run_of(again.events)).items() if stage != "validate"
        }
        assert states == {"skipped"}

    def lacks(self, pattern: str) -> None:
        """No host has a package, file, user, unit, timer, mount, interface, rule or process of this name (extended regex)."""
        spared = " ".join(f"-path '{place}' -prune -o" for place in SPARED)
        looks = {
            "packages": "dpkg-query -W -f '${Package} ${db:Status-Abbrev}\\n' | grep -v ' un'",
            "users and groups": "cut -d: -f1 /etc/passwd /etc/group",
            "units": "systemctl list-unit-files --no-legend; systemctl list-units --all --no-legend | grep -Ev 'not-found|[.]mount '",
            "mounts": "grep -Ev '^/dev/loop|/opt/appliance' /proc/self/mounts",
            "interfaces and routes": "ip -oneline link; ip route",
            "rules": "nft list ruleset",
            "cron": "ls /etc/cron.* /var/spool/cron/crontabs 2>/dev/null",
            "mounted disks": "find /var/lib/kubelet /var/lib/containerd -mindepth 1 ! -name lost+found",
            "files": f"find {PLACES} -xdev {spared} -print",
        }
        looks["processes"] = "ps -e -o comm="
        left = {
            f"{host}: {what}": found
            for host in self.hosts
            for what, command in looks.items()
            if (found := self.said(host, f"({command}) | grep -Ei '{pattern}' || true", 120))
        }
        assert left == {}


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sections]:
    """A head, a host of Slurm's and one of Kubernetes's."""
    spec = RackSpec(own_name("sections"), 3, kubernetes=True, slurm=1)
    with raised(spec, tmp_path_factory.mktemp("sections"), Sections) as found:
        text = (found.site / "site.yml").read_text().replace("\nversion: 1\n", "\nversion: 2\n")
        found.whole = text.partition("# Containers in Slurm jobs")[0] + SMALL_SITE + SLURM
        yield found


def both(rack: Sections) -> None:
    """Both schedulers have their host, and run work on it."""
    rack.choose()
    rack.deployed()
    assert rack.ready() == set(rack.hosts)
    assert rack.said("head", "srun --gres=gpu:8 hostname", 120) == "gpu-1\n"
    given = r"get node gpu-2 -o jsonpath='{.status.allocatable.nvidia\.com/gpu}'"
    assert rack.kubectl(given) == "8"


def test_both_schedulers_are_deployed(rack: Sections) -> None:
    both(rack)


def test_slurm_leaves_no_trace_and_its_accounting_is_saved(rack: Sections) -> None:
    rack.choose(slurm=False)
    rack.deployed()
    rack.lacks(
        "slurm|(^|/)munge(d|[.][a-z]+)?( |/|$)|mariadb-server|mariadbd|mysqld( |/|$)|^mysql$"
    )
    assert rack.said("head", "ls /var/backups/appliance/slurm").endswith(".sql.gz\n")
    given = r"get nodes -o jsonpath='{.items[*].status.allocatable.nvidia\.com/gpu}'"
    until(lambda: rack.kubectl(given).split() == ["8", "8"], "both GPU hosts are of Kubernetes")


def test_a_site_with_kubernetes_alone_does_not_name_slurm(rack: Sections) -> None:
    """Not in what it plans, finds, reports, warns of and shows."""
    said = {
        verb: rack.program(*verb.split()).stdout
        for verb in (
            *("plan", "plan --json", "health --all", "health --json"),
            *("report", "report --format json", "report --format html"),
        )
    }
    assert all(said.values())
    files = "/etc/prometheus /etc/alertmanager /usr/local/share/appliance /etc/default/prometheus*"
    said["files"] = rack.said("head", f"grep -ril slurm {files} || true")
    assert {name for name, text in said.items() if "slurm" in text.lower()} == set()
    assert "appliance-kubernetes" in rack.said("head", "cat /etc/prometheus/rules/appliance.yml")


def test_slurm_comes_back(rack: Sections) -> None:
    both(rack)


def test_kubernetes_stays_while_a_pod_runs(rack: Sections) -> None:
    rack.kubectl(f"apply -f - <<'END'\n{POD}\nEND")
    rack.kubectl("wait --for=condition=Ready --timeout=240s pod/at-work", 300)
    rack.choose(kubernetes=False)
    refused = rack.deploy()
    assert refused.end(SECONDS) == 2, refused.tail
    assert "pods of users still run: default/at-work" in refused.text
    assert rack.ready() == set(rack.hosts)
    # The remedy, typed.
    rack.kubectl("delete pod at-work")


def test_kubernetes_leaves_no_trace_and_etcd_is_saved(rack: Sections) -> None:
    rack.deployed()
    rack.lacks(
        "kube|(^|/)etcd([-. /]|$)|containerd|/cni( |/|$)|cni0|CNI-|appliance-(limits|certificates|etcd)"
    )
    assert ".snapshot" in rack.said("head", "ls /var/backups/appliance/etcd")
    hosts = rack.said("head", "srun -N2 --gres=gpu:8 hostname", 120).split()
    assert sorted(hosts) == ["gpu-1", "gpu-2"]


def test_kubernetes_comes_back(rack: Sections) -> None:
    both(rack)
