"""Alerts about InfiniBand ports, on the node exporter's metrics."""

from appliance.alerts.alert import Alert, Severity
from appliance.stages.fabric import ids

WHICH = "{{ $labels.instance }}: {{ $labels.device }} port {{ $labels.port }}"

ALERTS = (
    Alert(
        name="FabricPortDown",
        area="fabric",
        # 4 is ACTIVE (InfiniBand specification, PortState).
        expr="node_infiniband_state_id != 4",
        minutes=5,
        severity=Severity.CRITICAL,
        summary=WHICH + " is not active",
        remedy="appliance health --check fabric names the cable; reseat or replace it. If all ports of a host are down, check "
        "the subnet manager.",
        check=ids.STATE,
    ),
    Alert(
        name="FabricPortSlow",
        area="fabric",
        # The second fastest host: one host that reports an impossible rate raises no alert about the others.
        expr="node_infiniband_rate_bytes_per_second"
        " < on () group_left ()"
        " min(topk(2, max by (instance) (node_infiniband_rate_bytes_per_second)))"
        " and on (instance, device, port) node_infiniband_state_id == 4",
        minutes=10,
        severity=Severity.WARNING,
        summary=WHICH + " runs at {{ $value | humanize }}B/s, slower than the fastest ports",
        remedy="appliance health --check fabric.rate; reseat the cable: a lane that does not train halves the rate.",
        check=ids.RATE,
    ),
    Alert(
        name="FabricErrorsGrow",
        area="fabric",
        expr="increase(node_infiniband_symbol_error_total[1h]) > 10"
        " or increase(node_infiniband_port_receive_errors_total[1h]) > 10",
        minutes=0,
        severity=Severity.WARNING,
        summary=WHICH + " has {{ $value | humanize }} errors per hour",
        remedy="Clean or replace the cable, then the port; appliance health --check fabric.errors compares counters.",
        check=ids.ERRORS,
    ),
    Alert(
        name="FabricLinkFlaps",
        area="fabric",
        expr="increase(node_infiniband_link_downed_total[1h]) > 1",
        minutes=0,
        severity=Severity.WARNING,
        summary=WHICH + " went down {{ $value | humanize }} times within an hour",
        remedy="Reseat or replace the cable; check whether the other end flaps as well (iblinkinfo).",
        check=ids.ERRORS,
    ),
)
