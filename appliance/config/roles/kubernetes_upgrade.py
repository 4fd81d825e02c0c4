"""The steps of an upgrade by one minor release, host by host; a plan for people, nothing runs them."""

from collections.abc import Iterator
from dataclasses import dataclass

from appliance.config.roles.kubernetes import control_hosts, members
from appliance.config.roles.kubernetes_release import parse
from appliance.errors import ConfigError
from appliance.models.site import Site


@dataclass(frozen=True)
class Step:
    """One command on one host."""

    host: str
    command: str


def steps(site: Site, present: str, wanted: str) -> tuple[Step, ...]:
    """Everything from ``present`` to ``wanted`` (with its patch, as 1.35.2). Raises ConfigError for another distance than one."""
    old, new = parse(present), parse(wanted)
    if new.minor != old.minor + 1 or new.patch is None:
        raise ConfigError(
            f"an upgrade goes from 1.{old.minor} to a patch release of 1.{old.minor + 1}, not to {wanted}",
            "upgrade one minor release after the other",
        )
    return tuple(_steps(site, str(new), f"1.{new.minor}"))


def _steps(site: Site, exact: str, minor: str) -> Iterator[Step]:
    first = control_hosts(site)[0].name
    yield Step(first, "appliance-etcd save")
    for host in sorted(members(site), key=lambda h: h not in control_hosts(site)):
        yield Step(first, f"kubectl drain {host.name} --ignore-daemonsets --delete-emptydir-data")
        yield Step(host.name, f"install kubeadm {exact} from the repository of {minor}")
        if host.name == first:
            yield Step(first, f"kubeadm upgrade plan v{exact}")
            yield Step(first, f"kubeadm upgrade apply v{exact} --yes")
        else:
            yield Step(host.name, "kubeadm upgrade node")
        yield Step(host.name, f"install kubelet and kubectl {exact}; systemctl restart kubelet")
        yield Step(first, f"kubectl wait --for=condition=Ready node/{host.name} --timeout=5m")
        yield Step(first, f"kubectl uncordon {host.name}")
    yield Step("control", f'set kubernetes.version to "{minor}" in site.yml; appliance deploy')
