"""Alerts about etcd, and about unfit hosts that get pods."""

from appliance.alerts.alert import Alert, Severity
from appliance.stages.kubernetes import ids
from appliance.stages.kubernetes.checks.etcd import MOST, REPAIR

SIZE = 'etcd_mvcc_db_total_size_in_bytes{job="etcd"} / etcd_server_quota_backend_bytes'
# etcd has no metric for its alarms. With NOSPACE it answers ResourceExhausted to each change, with CORRUPT DataLoss to each
# request (etcd's rpctypes/error.go), and kubelets renew their leases every 10 s.
REFUSED = 'grpc_server_handled_total{job="etcd",grpc_code=~"ResourceExhausted|DataLoss"}'

ALERTS = (
    Alert(
        name="EtcdFilling",
        area="kubernetes",
        expr=f"{SIZE} > {MOST / 100:g}",
        minutes=10,
        severity=Severity.WARNING,
        summary="etcd on {{ $labels.instance }}: its database uses {{ $value | humanizePercentage }} of its quota",
        remedy=f"{REPAIR} frees space and lists the largest namespaces; at 100 % etcd refuses all changes.",
        check=ids.ETCD,
    ),
    Alert(
        name="EtcdRefusesChanges",
        area="kubernetes",
        expr=f"sum by (instance, grpc_code) (rate({REFUSED}[5m])) > 0",
        minutes=5,
        severity=Severity.CRITICAL,
        summary="etcd on {{ $labels.instance }} refuses requests ({{ $labels.grpc_code }}): the cluster cannot be changed",
        remedy=f"appliance health --check {ids.ETCD} names the alarm; ResourceExhausted means a full database: {REPAIR}",
        check=ids.ETCD,
    ),
    Alert(
        name="NodeUnfitAndKept",
        area="kubernetes",
        expr='appliance_watch_kept{scheduler="kubernetes"} == 1',
        minutes=2,
        severity=Severity.CRITICAL,
        summary="{{ $labels.instance }} is unfit for pods but not cordoned",
        remedy="appliance-node-watch look there shows why; the limit kubernetes.watch.most_out of cordoned hosts is reached, or the API "
        "does not answer.",
        check=ids.WATCH,
    ),
)
