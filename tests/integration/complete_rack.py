"""What a complete rack offers once it is deployed, by the commands that `deploy` prints and those of docs/lab.md."""

import json
import re
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

from appliance.adapters.process import Completed, run
from appliance.lab import ssh
from appliance.lab.spec import EMBEDDED, Rack, load
from tests.integration.rack import PROGRAM

KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
PODS = ("gpu-3", "gpu-4", "gpu-5")
JOBS = ("gpu-1", "gpu-2")
PARTS = {
    "nvidia.com/mig-1g.10gb": "2",
    "nvidia.com/mig-2g.20gb": "1",
    "nvidia.com/mig-3g.40gb": "1",
}
SECONDS = 120.0


class Seen:
    """Commands on the rack's head, as root or as a member."""

    def __init__(self, rack: Rack) -> None:
        self.rack = rack

    def shell(self, script: str) -> Completed:
        """A line for the shell of the head."""
        return ssh.on_host(self.rack, self.rack.host("head"), (script,), timeout=SECONDS)

    def said(self, script: str) -> str:
        """What it printed; it must end with 0."""
        done = self.shell(script)
        assert done.returncode == 0, f"{script}: {done.returncode} {done.stdout} {done.stderr}"
        return done.stdout

    def of(self, member: str, command: str) -> Completed:
        """A command as a member who has logged in."""
        return self.shell(f"su - {member} -c {shlex.quote(command)}")


def nodes(seen: Seen) -> None:
    """Every host of the cluster is Ready, at 1.35 or newer; one GPU of the first is divided, its parts can be allocated."""
    found = json.loads(seen.said(f"{KUBECTL} get nodes -o json"))["items"]
    for node in found:
        ready = [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"]
        assert ready == ["True"], node["metadata"]["name"]
        version = node["status"]["nodeInfo"]["kubeletVersion"]
        assert tuple(map(int, re.findall(r"\d+", version)[:2])) >= (1, 35), version
    given = {node["metadata"]["name"]: node["status"]["allocatable"] for node in found}
    assert set(PODS) <= set(given)
    assert given[PODS[0]]["nvidia.com/gpu"] == "7"
    assert PARTS.items() <= given[PODS[0]].items()
    assert {given[name]["nvidia.com/gpu"] for name in PODS[1:]} == {"8"}


def members(seen: Seen) -> None:
    """A member's pod gets a GPU from KAI; another project refuses him."""
    made = seen.of("alice", "kubectl create -f gpu-pod.yaml")
    assert made.returncode == 0, made.stderr
    phase = "kubectl get pod gpu-pod -o jsonpath={.status.phase}"
    until(lambda: seen.of("alice", phase).stdout == "Succeeded", "alice's pod has ended")
    assert seen.of("alice", "kubectl logs gpu-pod").stdout.startswith("gpus=GPU-")
    events = seen.said(f"{KUBECTL} -n kai-vision get events -o json")
    by = {
        e.get("reportingComponent") or e["source"].get("component")
        for e in json.loads(events)["items"]
        if e["reason"] == "Scheduled"
    }
    assert by == {"kai-scheduler"}, by
    assert seen.of("alice", "kubectl delete pod gpu-pod").returncode == 0
    refused = seen.of("alice", "kubectl -n kai-language get pods")
    assert refused.returncode == 1
    assert "Forbidden" in refused.stderr
    assert seen.of("bob", "kubectl -n kai-language get pods").returncode == 0


def parts(seen: Seen) -> None:
    """A member's pod gets a part of a GPU through the queue of the pool that has parts."""
    pod = json.loads(
        seen.of("alice", "kubectl create -f gpu-pod.yaml --dry-run=client -o json").stdout
    )
    pod["metadata"]["name"] = "part-pod"
    pod["metadata"]["labels"] = {
        "kai.scheduler/queue": "vision-small",
        "kai.scheduler/node-pool": "parts",
    }
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/mig-1g.10gb": "1"}}
    made = seen.of("alice", f"echo {shlex.quote(json.dumps(pod))} | kubectl create -f -")
    assert made.returncode == 0, made.stderr
    phase = "kubectl get pod part-pod -o jsonpath={.status.phase}"
    until(lambda: seen.of("alice", phase).stdout == "Succeeded", "the pod with a part has ended")
    assert "MIG-" in seen.of("alice", "kubectl logs part-pod").stdout
    assert seen.of("alice", "kubectl delete pod part-pod").returncode == 0


def jobs(seen: Seen) -> None:
    """Slurm runs a job on both of its hosts, for a member, too."""
    found = seen.said("srun -N2 --gpus-per-node=1 hostname")
    assert sorted(found.split()) == sorted(JOBS)
    done = seen.of("bob", "srun -N1 --gpus-per-node=1 hostname")
    assert done.stdout.strip() in JOBS, done.stderr


def report(_: Seen) -> None:
    """The last deployment compares both ways, marked as without meaning for a GPU."""
    record = json.loads(run((PROGRAM, "report", "--format", "json"), timeout=SECONDS).stdout)
    (table,) = [t for t in record["tables"] if t["title"].startswith("GPT-3")]
    rows = [row[0] for row in table["rows"]]
    assert [row for row in rows if row.endswith("tokens/s") and ":" in row] == [
        "Bare metal: tokens/s",
        "Kubernetes: tokens/s",
    ]
    assert rows[-1] == "Difference"
    assert table["columns"] == ["", "1 node", "2 nodes"]
    assert "but no GPU" in table["note"]
    passed = {r["id"] for r in record["results"] if r["status"] == "pass"}
    assert {"scheduler.pod", "slurm.job", "gpt3.loss"} <= passed


LOOKS = (nodes, members, parts, jobs, report)


def until(holds: Callable[[], bool], what: str) -> None:
    """Waits for it."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not within {SECONDS:g} s: {what}"
        time.sleep(1)


def main() -> int:
    """All looks at the rack that stands."""
    rack = load(EMBEDDED)
    assert rack is not None, f"no rack named {EMBEDDED}"
    for look in LOOKS:
        look(Seen(rack))
        sys.stdout.write(f"{Path(__file__).stem}: {look.__name__}: as it should be\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
