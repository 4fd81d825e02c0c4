"""Alerts about the machines: reachability, disk space, time, memory and services."""

from appliance.alerts.alert import Alert, Severity
from appliance.stages.base import ids
from appliance.stages.observe import ids as observe_ids

ON_DISK = '{fstype!~"tmpfs|ramfs|squashfs|iso9660"}'

ALERTS = (
    Alert(
        name="HostDown",
        area="host",
        expr='up{job="node"} == 0',
        minutes=2,
        severity=Severity.CRITICAL,
        summary="{{ $labels.instance }} has not answered for two minutes",
        remedy="Check its console and power. If it runs: systemctl status prometheus-node-exporter, then the "
        "management network.",
        check=observe_ids.TARGETS,
    ),
    Alert(
        name="FilesystemFilling",
        area="host",
        expr=f"predict_linear(node_filesystem_avail_bytes{ON_DISK}[6h:5m], 86400) < 0"
        " and node_filesystem_avail_bytes / node_filesystem_size_bytes < 0.25"
        " and node_filesystem_readonly == 0",
        minutes=30,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: {{ $labels.mountpoint }} will be full within a day",
        remedy="Find what grows: du -xh --max-depth=2 {{ $labels.mountpoint }} | sort -h | tail",
        check=ids.DISK,
    ),
    Alert(
        name="FilesystemFull",
        area="host",
        expr=f"node_filesystem_avail_bytes{ON_DISK} / node_filesystem_size_bytes < 0.05"
        " and node_filesystem_readonly == 0",
        minutes=5,
        severity=Severity.CRITICAL,
        summary="{{ $labels.instance }}: {{ $labels.mountpoint }} has {{ $value | humanizePercentage }} free",
        remedy="Free space now: du -xh --max-depth=2 {{ $labels.mountpoint }} | sort -h | tail; "
        "journalctl --vacuum-size=1G",
        check=ids.DISK,
    ),
    Alert(
        name="InodesGone",
        area="host",
        expr=f"node_filesystem_files_free{ON_DISK} / (node_filesystem_files > 0) < 0.05"
        " and node_filesystem_readonly == 0",
        minutes=5,
        severity=Severity.CRITICAL,
        summary="{{ $labels.instance }}: {{ $labels.mountpoint }} has {{ $value | humanizePercentage }} of its "
        "inodes free",
        remedy="Find the folder with too many small files: du --inodes -xd2 {{ $labels.mountpoint }} | sort -n | tail",
        check=ids.DISK,
    ),
    Alert(
        name="ClockOff",
        area="host",
        expr="abs(node_timex_offset_seconds) > 0.05"
        " or abs(node_time_seconds - timestamp(node_time_seconds)) > 1",
        minutes=5,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: the clock is off by {{ $value | humanizeDuration }}",
        remedy="chronyc sources -v and chronyc tracking there; munge refuses hosts whose clocks differ.",
        check=ids.CLOCK,
    ),
    Alert(
        name="UnitFailed",
        area="host",
        # Any user can make these fail, by killing their own service manager.
        expr='node_systemd_unit_state{state="failed",name!~"user(-runtime-dir)?@[0-9]+[.]service|session-c?[0-9]+[.]scope|systemd-coredump@[0-9-]+[.]service"} == 1',
        minutes=2,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: {{ $labels.name }} has failed",
        remedy="systemctl status {{ $labels.name }} and journalctl -u {{ $labels.name }} there; systemctl "
        "reset-failed after the repair.",
        check=ids.FAILED_UNITS,
    ),
    Alert(
        name="MemoryLow",
        area="host",
        expr="node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes < 0.05",
        minutes=5,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }} has {{ $value | humanizePercentage }} of its memory free",
        remedy="ps aux --sort=-rss | head there; limit the memory of jobs and pods.",
        check=ids.MEMORY,
    ),
    Alert(
        name="ProcessesKilledForMemory",
        area="host",
        expr="increase(node_vmstat_oom_kill[10m]) > 0",
        minutes=0,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: the kernel killed processes because memory ran out",
        remedy="journalctl -k -g 'Out of memory|oom-kill' there names them; give the job more memory or limit it to "
        "its share.",
        check=ids.MEMORY,
    ),
    Alert(
        name="MemoryErrorsUncorrected",
        area="host",
        expr="node_edac_uncorrectable_errors_total > 0",
        minutes=0,
        severity=Severity.CRITICAL,
        summary="{{ $labels.instance }}: {{ $value }} uncorrectable memory errors since its start",
        remedy="Drain the host and replace the module: appliance health --check base.memory_errors names it.",
        check=ids.MEMORY_ERRORS,
    ),
    Alert(
        name="MemoryErrorsCorrected",
        area="host",
        expr="increase(node_edac_correctable_errors_total[1d:5m]) > 10",
        minutes=5,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: {{ $value | humanize }} corrected memory errors within a day",
        remedy="Replace the module at the next maintenance: appliance health --check base.memory_errors names it.",
        check=ids.MEMORY_ERRORS,
    ),
)
