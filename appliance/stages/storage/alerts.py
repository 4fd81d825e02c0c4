"""Alerts about shared and local storage, on the node exporter's metrics."""

from appliance.alerts.alert import Alert, Severity
from appliance.stages.storage import ids

ALERTS = (
    Alert(
        name="MountBroken",
        area="storage",
        expr='node_filesystem_device_error{fstype=~"nfs.*|xfs|ext4"} == 1',
        minutes=2,
        severity=Severity.CRITICAL,
        summary="{{ $labels.instance }}: {{ $labels.mountpoint }} does not answer",
        remedy="Check the server first (appliance health --check storage.server), then umount -l and mount "
        "{{ $labels.mountpoint }} there.",
        check=ids.MOUNT,
    ),
    Alert(
        name="NfsRepeats",
        area="storage",
        expr="rate(node_nfs_rpc_retransmissions_total[5m]) > 1",
        minutes=10,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }} retransmits {{ $value | humanize }} NFS requests per second",
        remedy="The server is overloaded or packets are lost: check its disks and the ports of the storage network.",
        check=ids.MOUNT,
    ),
    Alert(
        name="ScratchDegraded",
        area="storage",
        expr='node_md_disks_required - on (instance, device) node_md_disks{state="active"} > 0',
        minutes=5,
        severity=Severity.CRITICAL,
        summary="{{ $labels.instance }}: array {{ $labels.device }} lacks {{ $value }} disks",
        remedy="mdadm --detail /dev/{{ $labels.device }} there names the disk. Scratch is RAID 0: its data is lost; "
        "replace the disk, then appliance deploy --stage storage.",
        check=ids.SCRATCH,
    ),
    Alert(
        name="DiskBusy",
        area="storage",
        expr='rate(node_disk_io_time_seconds_total{device!~"loop.*|ram.*|md.*|dm-.*"}[10m]) > 0.95',
        minutes=30,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: disk {{ $labels.device }} has been busy for half an hour",
        remedy="ps -eo pid,user,stat,args | awk '$3 ~ /D/' there lists the processes that wait for disks; on the file server consider more disks or fewer clients.",
        check=ids.EXPORT,
    ),
)
