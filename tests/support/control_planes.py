"""Control planes, as several test modules use it."""

import json
import ssl
import time
import urllib.request

from appliance.lab import machine, ssh
from tests.integration.rack import PROGRAM, Bench, Deployment, run_of

HEADS = {"head", "head-2", "head-3"}


STAGES = ("--stage", "base", "--stage", "kubernetes", "--json")


SECONDS = 3600.0


MOVE_SECONDS = 300.0


KUBECTL = "KUBECONFIG=/etc/kubernetes/admin.conf kubectl"


ETCDCTL = (
    "ETCDCTL_API=3 etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt "
    "--cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt --key=/etc/kubernetes/pki/etcd/healthcheck-client.key"
)


class Cluster(Bench):
    """A bench with three control hosts."""

    def said(self, host: str, script: str, seconds: float = 120) -> str:
        """What a shell script printed on a host; it must end with 0."""
        done = ssh.on_host(self.rack, self.rack.host(host), (script,), timeout=seconds)
        assert done.returncode == 0, f"{host}: {script}: {done.stdout} {done.stderr}"
        return done.stdout

    def brought_up(self, *flags: str) -> dict[tuple[str, str], str]:
        """A deployment to its end; how each stage ended on each host, and why it ran."""
        deployment = self.deploy(*STAGES, *flags)
        assert deployment.end(SECONDS) in (0, 3), deployment.tail
        run_id = run_of(deployment.events)
        whys = {(e["stage"], e["host"]): e["why"] for e in self.journal("host_started", run_id)}
        ends = {(o["stage"], o["host"]): o["state"] for o in self.report(run_id)["outcomes"]}
        return {at: f"{end} {whys.get(at, '')}".strip() for at, end in ends.items()}

    def members(self, asked: str) -> set[str]:
        """Names of etcd's members, as one of them has them."""
        lines = self.said(asked, f"{ETCDCTL} member list").splitlines()
        return {line.split(", ")[2] for line in lines}

    def holder(self) -> str:
        """The host that carries the shared address."""
        address = f" {self.rack.virtual_address}/32"
        up = [h for h in sorted(HEADS) if machine.is_running(self.rack.host(h))]
        found = [h for h in up if address in self.said(h, "ip -4 -o address")]
        assert len(found) == 1, f"{found} hold{address}"
        return found[0]

    def answers(self) -> bool:
        """Whether the API is ready at the shared address."""
        url = f"https://{self.rack.virtual_address}:6443/readyz"
        anybody = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(url, timeout=5, context=anybody) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def until_it_answers(self) -> None:
        """Waits until the API is ready at the shared address."""
        start = time.monotonic()
        while not self.answers():
            assert time.monotonic() - start < MOVE_SECONDS, "nobody took the address over"
            time.sleep(0.5)

    def failures(self) -> list[dict[str, str]]:
        """What health says is wrong."""
        done = self.program("health", "--json", "--check", "kubernetes")
        return [r for r in json.loads(done.stdout)["results"] if r["status"] == "fail"]

    def restores(self, name: str) -> Deployment:
        """``appliance etcd restore``, at work."""
        argv = (PROGRAM, "etcd", "restore", name, "--site", str(self.site), "--yes", "--json")
        self.started.append(Deployment(self.logs, argv, {}))
        return self.started[-1]

    def tells(self, words: str) -> dict[str, str]:
        """What etcdctl says on each control host."""
        return {head: self.said(head, f"{ETCDCTL} {words}") for head in sorted(HEADS)}

    def until_well(self) -> None:
        """Waits until health finds nothing wrong."""
        end = time.monotonic() + 2 * MOVE_SECONDS
        while found := self.failures():
            assert time.monotonic() < end, found
            time.sleep(2)
