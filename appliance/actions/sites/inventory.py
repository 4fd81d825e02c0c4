"""The hosts of a site for other programs: Ansible's dynamic inventory, and service discovery of Prometheus."""

from collections.abc import Mapping
from pathlib import Path

from appliance.adapters.ssh_config import options_of_others, plain_path
from appliance.config.load import LoadedSite
from appliance.engine import ansible_hosts
from appliance.errors import ConfigError
from appliance.models.site import Host, Role
from appliance.report.formatting import fold
from appliance.stages.observe.variables import DCGM_PORT, JOB_PORT

Json = dict[str, object]


def ansible_tree(loaded: LoadedSite) -> Json:
    """The document that Ansible expects of an inventory script with ``--list``, with the variables of all hosts.

    Raises InvalidConfig while no host key is pinned, and ConfigError for a path that ssh cannot express.
    """
    loaded.require_ready()
    hosts = _ansible_hosts(loaded)
    groups = ansible_hosts.groups(loaded.site, hosts)
    return {
        "_meta": {"hostvars": hosts},
        "all": {"hosts": list(hosts), "children": [*groups, "ungrouped"]},
        **{name: {"hosts": list(members)} for name, members in groups.items()},
    }


def ansible_host(loaded: LoadedSite, name: str) -> Mapping[str, object]:
    """The variables of one host: what Ansible expects with ``--host``. Raises ConfigError for an unknown name."""
    loaded.require_ready()
    hosts = _ansible_hosts(loaded)
    if name not in hosts:
        raise ConfigError(f"--host {name}: no such host", f"hosts: {fold(list(hosts))}")
    return hosts[name]


def _ansible_hosts(loaded: LoadedSite) -> dict[str, dict[str, object]]:
    access = loaded.site.access
    ssh: dict[str, object] = {
        "ansible_host_key_checking": True,
        "ansible_ssh_common_args": options_of_others(loaded.folder / access.known_hosts),
    }
    if access.private_key:
        key: Path = loaded.folder / access.private_key
        ssh["ansible_ssh_private_key_file"] = plain_path(key)
        ssh["ansible_ssh_common_args"] = f"{ssh['ansible_ssh_common_args']} -o IdentitiesOnly=yes"
    return {host.name: ansible_hosts.connection(access, host) | ssh for host in loaded.site.hosts}


def prometheus_targets(loaded: LoadedSite) -> list[Json]:
    """The site's exporters in the format of Prometheus's file_sd and http_sd; job and instance as in the site's own Prometheus.

    Exporters of simulated GPUs are left out.
    """
    loaded.require_ready(by_ssh=False)
    site = loaded.site
    gpus = () if "gpu" in site.simulated else site.with_role(Role.GPU)
    return [
        *(_target(loaded, host, "node", JOB_PORT) for host in site.hosts),
        *(_target(loaded, host, "dcgm", DCGM_PORT) for host in gpus),
    ]


def _target(loaded: LoadedSite, host: Host, job: str, port: int) -> Json:
    labels = {
        "job": job,
        "instance": host.name,
        "host": host.name,
        "roles": ",".join(role.value for role in host.roles),
        "cluster": loaded.site.name,
    }
    if host.has_class:
        labels["class"] = loaded.profile_of(host.name).name
    if host.rack:
        labels["rack"] = host.rack
    if host.unit:
        labels["unit"] = str(host.unit)
    return {"targets": [f"{host.address}:{port}"], "labels": labels}
