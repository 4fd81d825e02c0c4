"""What stage observe restarts."""

from appliance.models.facts import HostFacts
from appliance.models.site import Host
from appliance.stages.base.restarts import is_other
from appliance.stages.context import Variables
from appliance.stages.restart import Restart

UNITS = "/etc/systemd/system"
FIREWALL = f"{UNITS}/appliance-observe.service"
"""Units that require the firewall and are restarted with it."""
ALERTS = (
    *("/etc/default/prometheus-alertmanager", "/etc/default/alertmanager"),
    *("/etc/prometheus/alertmanager.yml", FIREWALL),
    f"{UNITS}/prometheus-alertmanager.service.d/appliance.conf",
    f"{UNITS}/alertmanager.service.d/appliance.conf",
)
TOLD = frozenset({"observe_mail", "observe_receivers"})


def _serves(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    return bool(variables["observe_server"])


def _has_receivers(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    return _serves(host, facts, variables) and bool(variables["observe_receivers"])


def _has_receivers_elsewhere(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    return _has_receivers(host, facts, variables) and is_other(host, facts, variables)


RESTARTS = (
    Restart("appliance-observe", (FIREWALL,)),
    Restart(
        "prometheus-node-exporter",
        (
            *("/etc/default/prometheus-node-exporter", FIREWALL),
            f"{UNITS}/prometheus-node-exporter.service.d/appliance.conf",
        ),
        frozenset({"observe_address", "observe_textfile_directory"}),
    ),
    Restart(
        "prometheus",
        (
            *("/etc/default/prometheus", "/etc/prometheus/prometheus.yml"),
            *("/etc/prometheus/rules/appliance.yml", FIREWALL),
            f"{UNITS}/prometheus.service.d/appliance.conf",
        ),
        frozenset(
            {
                *("observe_cluster", "observe_gpu_targets", "observe_instance", "observe_server"),
                *("observe_retention_days", "observe_site", "observe_slurm", "observe_targets"),
            }
        ),
        frozenset({"observe_receivers"}),
        on=_serves,
    ),
    Restart(
        "appliance-prometheus.socket",
        (f"{UNITS}/appliance-prometheus.socket",),
        frozenset({"observe_address"}),
        on=_serves,
    ),
    Restart("prometheus-alertmanager", ALERTS, TOLD, on=_has_receivers),
    Restart("alertmanager", ALERTS, TOLD, on=_has_receivers_elsewhere),
    Restart(
        "appliance-slurm-metrics.timer",
        (f"{UNITS}/appliance-slurm-metrics.timer",),
        on=lambda host, facts, variables: bool(variables["observe_slurm"]),
    ),
)
