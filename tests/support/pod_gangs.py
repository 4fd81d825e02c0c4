"""Gangs of pods that answer at once, and a site whose GPU hosts Kubernetes owns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from appliance.adapters.pods import PodRemote, PodTemplate, PodWork, Rank
from appliance.adapters.process import Completed
from appliance.checks.check import View
from appliance.models.site import Owner, Role
from tests.support.fake_pods import Beside, Cluster

Answer = Callable[[Sequence[str], PodWork], tuple[Rank, ...]]


def none(hosts: Sequence[str], work: PodWork) -> tuple[Rank, ...]:
    """No gang is expected."""
    raise AssertionError(f"a gang of {hosts}")


@dataclass(frozen=True)
class Gangs(PodRemote):
    """``alone``: what a program on one host prints; ``said``: how the ranks of a gang end."""

    alone: Callable[[str], str] = str
    said: Answer = none

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        return Completed(tuple(argv), 0, self.alone(host), "")

    def gang(self, hosts: Sequence[str], work: PodWork, port: int) -> tuple[Rank, ...]:
        assert work.on_host_network, "addresses of RoCE exist only there"
        return self.said(hosts, work)


def gangs(hosts: Sequence[str], said: Answer, alone: Callable[[str], str] = str) -> Gangs:
    """Access to these hosts through pods."""
    template = PodTemplate("busybox:1")
    return Gangs(Beside(), Cluster(), frozenset(hosts), template, alone=alone, said=said)


def of_kubernetes(seen: View) -> View:
    """The same site with all GPU hosts owned by Kubernetes, and no Slurm."""
    hosts = tuple(
        host.model_copy(update={"owner": Owner.KUBERNETES}) if Role.GPU in host.roles else host
        for host in seen.site.hosts
    )
    return replace(seen, site=seen.site.model_copy(update={"slurm": None, "hosts": hosts}))
