"""Rack cluster, as several test modules use it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance.lab.spec import RackSpec
from tests.integration.kept import Kept
from tests.integration.rack import Bench, Event, own_name, raised

NAME = "cluster"


HOSTS = 3


UNTIL = ("--until", "kubernetes", "--json")


SECONDS = 2400.0


KUBECTL = "KUBECONFIG=/etc/kubernetes/admin.conf kubectl"


BUSYBOX = "appliance.local/busybox:1"


class Cluster(Bench):
    """A bench whose head is a control plane."""

    def kubectl(self, words: str, seconds: float = 60) -> str:
        """What kubectl printed; it must end with 0."""
        return self.said("head", f"{KUBECTL} {words}", seconds)

    def said(self, host: str, script: str, seconds: float = 60) -> str:
        """What a shell script printed on a host; it must end with 0."""
        from appliance.lab import ssh

        done = ssh.on_host(self.rack, self.rack.host(host), (script,), timeout=seconds)
        assert done.returncode == 0, f"{host}: {script}: {done.stdout} {done.stderr}"
        return done.stdout

    def brought_up(self, *flags: str) -> list[Event]:
        """A deployment through stage kubernetes, to its end; its events."""
        deployment = self.deploy(*UNTIL, *flags)
        assert deployment.end(SECONDS) in (0, 3), deployment.tail
        return deployment.events

    def states(self, run_id: str) -> dict[tuple[str, str], str]:
        """How each stage ended on each host."""
        return {(o["stage"], o["host"]): o["state"] for o in self.report(run_id)["outcomes"]}

    def ready(self) -> set[str]:
        """Nodes that are ready and not cordoned."""
        lines = (line.split() for line in self.kubectl("get nodes --no-headers").splitlines())
        return {name for name, state, *_ in lines if state == "Ready"}


def _makes_the_cluster(events: list[Event]) -> bool:
    tasks = [e["task"] for e in events if e["event"] == "host_task" and e["host"] == "head"]
    return any("Make the cluster" in task for task in tasks)


@contextmanager
def made(logs: Path) -> Iterator[Cluster]:
    """A cluster after a first deployment that was killed while it was made, and a second that went on."""
    spec = RackSpec(own_name(NAME), HOSTS, kubernetes=True)
    with raised(spec, logs, Cluster) as found:
        first = found.deploy(*UNTIL)
        first.until(_makes_the_cluster, SECONDS)
        first.send(signal.SIGKILL)
        first.end()
        found.brought_up()
        yield found


@pytest.fixture(scope="module")
def cluster(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """The cluster that test_node_assign goes on with."""
    return kept.of(NAME, lambda: made(tmp_path_factory.mktemp(NAME)))
