"""Variables of role ``observe``."""

import re

from appliance.config.secrets import MAIL_PASSWORD
from appliance.errors import ConfigError
from appliance.models.site import Host, Role, Site
from appliance.stages.context import RoleContext, Variables
from appliance.stages.kubernetes.variables import API_PORT, members
from appliance.stages.observe.site import Receiver

PROMETHEUS_PORT = 9090
ALERTMANAGER_PORT = 9093
JOB_PORT = 9100
DCGM_PORT = 9400
DCGM_ENGINE_PORT = 5555
"""Port of nv-hostengine, which executes requests of any client as root: power limits, diagnostics on busy GPUs."""
KUBELET_PORT = 10250
ETCD_PORT = 2381
ETCD = f"127.0.0.1:{ETCD_PORT}"
"""Address of etcd's metrics in kubeadm's configuration: without a login, only on its own host."""
AUTHORITY = "/etc/kubernetes/pki/ca.crt"
KAI_PATH = "/api/v1/namespaces/kai-scheduler/services/{service}:8080/proxy/metrics"
KAI = {"queues": "queue-controller", "scheduler": "kai-scheduler-default"}
"""Services of KAI with metrics, by their names on boards."""
DCGM_EXPORTER = "nvidia-dcgm-exporter.service"
"""Unit of NVIDIA's package datacenter-gpu-manager-exporter."""
GRAFANA = "grafana-server.service"
"""Unit of Grafana's own package; its account is grafana."""
HOOK = re.compile(r"https?://[^\s'\"<>\\]{4,2000}")


def variables(context: RoleContext) -> Variables:
    """Return the variables: an exporter on every host; Prometheus on the first control host, with all hosts as targets."""
    server = _is_server(context)
    control = [str(host.address) for host in context.site.with_role(Role.CONTROL)]
    return {
        "observe_address": str(context.host.address),
        "observe_server": server,
        "observe_prometheus": control[0] if control else "",
        "observe_ports": _ports(context),
        "observe_askers": control[1:] if server else [],
        "observe_open_to": [str(network) for network in context.site.observe.open_to],
        "observe_readers": _readers(context.site) if server else [],
        "observe_grafana": server and _has_grafana(context),
        "observe_instance": context.host.name,
        "observe_site": context.site.name,
        "observe_targets": _targets(context.site) if server else [],
        "observe_gpu_targets": _gpu_targets(context) if server else [],
        "observe_cluster": _cluster(context) if server else {},
        "observe_slurm": server and context.site.slurm is not None,
        "observe_retention_days": context.site.observe.retention_days,
        "observe_receivers": _receivers(context) if server else [],
        "observe_mail": _mail(context) if server else {},
    }


def _is_server(context: RoleContext) -> bool:
    control = context.site.with_role(Role.CONTROL)
    return bool(control) and control[0].name == context.host.name


def _ports(context: RoleContext) -> list[int]:
    """Return ports without a login on this host."""
    site, roles = context.site, context.host.roles
    ports = [PROMETHEUS_PORT, ALERTMANAGER_PORT] if _is_server(context) else []
    own = site.kubernetes is not None and site.kubernetes.external is None
    etcd = [ETCD_PORT] if own and Role.CONTROL in roles else []
    engine = [DCGM_ENGINE_PORT] if Role.GPU in roles else []
    return [*ports, JOB_PORT, DCGM_PORT, *engine, *etcd]


def _readers(site: Site) -> list[str]:
    """Return admins, who can become root there anyway."""
    return [admin.name for admin in site.base.admins if admin.sudo]


def _has_grafana(context: RoleContext) -> bool:
    facts = context.facts.get(context.host.name)
    unit = facts.units.get(GRAFANA) if facts else None
    return unit is not None and unit.load == "loaded"


def _receivers(context: RoleContext) -> list[dict[str, object]]:
    """Return name, severity and address of each receiver, by kind of delivery. Raises ConfigError for an invalid address."""
    return [
        {
            "name": receiver.name,
            "critical": receiver.severity == "critical",
            "email": receiver.email or "",
            "webhook": _hook(context, receiver) if receiver.webhook else "",
            "slack": _hook(context, receiver) if receiver.slack else "",
        }
        for receiver in context.site.observe.receivers
    ]


def _hook(context: RoleContext, receiver: Receiver) -> str:
    address = _secret(context, f"receiver.{receiver.name}")
    if not HOOK.fullmatch(address):
        raise ConfigError(
            f"the address of receiver {receiver.name} is not an http or https URL",
            "store only the complete URL in the secret that observe.receivers sets",
        )
    return address


def _mail(context: RoleContext) -> dict[str, object]:
    mail = context.site.observe.mail
    if mail is None:
        return {}
    return {
        "server": f"{mail.server}:{mail.port}",
        "sender": mail.sender,
        "user": mail.user or "",
        "password": _secret(context, MAIL_PASSWORD) if mail.password else "",
        "tls": mail.tls,
    }


def _secret(context: RoleContext, name: str) -> str:
    if name not in context.secrets:
        raise ConfigError(
            f"the secret of {name} was not read",
            "run this on the control machine that has the secret",
        )
    return context.secrets[name]


def _targets(site: Site) -> list[dict[str, object]]:
    return [
        {
            "instance": host.name,
            "address": f"{host.address}:{JOB_PORT}",
            "roles": ",".join(role.value for role in host.roles),
        }
        for host in site.hosts
    ]


def _gpu_targets(context: RoleContext) -> list[dict[str, object]]:
    """Return GPU hosts on which dcgm-exporter ran, so that one that was never installed raises no alarm.

    Values of simulated GPUs are not on the boards, where they would look measured.
    """
    return [
        {"instance": host.name, "address": f"{host.address}:{DCGM_PORT}"}
        for host in context.site.with_role(Role.GPU)
        if (facts := context.facts.get(host.name))
        and "gpu" not in facts.simulated
        and (unit := facts.units.get(DCGM_EXPORTER))
        and unit.active == "active"
    ]


def _cluster(context: RoleContext) -> dict[str, object]:
    """Return targets in the site's cluster, if Prometheus's host is a control plane."""
    site, facts = context.site, context.own
    own = site.kubernetes is not None and site.kubernetes.external is None
    if not (own and facts and facts.kubernetes and AUTHORITY in facts.kubernetes.certificates):
        return {}
    return {
        "apis": [_target(h, API_PORT) for h in site.with_role(Role.CONTROL)],
        "kubelets": [_target(h, KUBELET_PORT) for h in members(site)],
        "etcd": ETCD,
        "kai": _kai(site),
    }


def _target(host: Host, port: int) -> dict[str, object]:
    return {"instance": host.name, "address": f"{host.address}:{port}"}


def _kai(site: Site) -> list[dict[str, object]]:
    """Return components of KAI, if it is the scheduler; the API server is a proxy for their metrics."""
    if site.scheduler is None or site.scheduler.kind == "runai":
        return []
    return [
        {"instance": name, "service": service, "path": KAI_PATH.format(service=service)}
        for name, service in KAI.items()
    ]
