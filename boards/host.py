"""One host: load, memory, disks, network, clock, services, fabric."""

from boards.panel import Board, Needs, Variable, lines, number, table

H = '{instance=~"$host"}'
FS = '{instance=~"$host",fstype!~"tmpfs|ramfs|squashfs|iso9660"}'
NET = '{instance=~"$host",device!~"lo|veth.*|cali.*"}'
RATE = "[$__rate_interval]"

BOARD = Board(
    name="host",
    title="Host",
    purpose="What does this machine do, and what does it lack?",
    variables=(Variable("host", "Host", 'up{job="node"}', "instance"),),
    panels=(
        number("Answers", 'min(up{job="node",instance=~"$host"})'),
        number("Up since", f"min(time() - node_boot_time_seconds{H})", "s"),
        number("Failed units", 'sum(node_systemd_unit_state{instance=~"$host",state="failed"})'),
        number("Clock off by", f"max(abs(node_timex_offset_seconds{H}))", "s", Needs.OWN_CLOCK),
        number(
            "Fullest filesystem",
            f"max(1 - node_filesystem_avail_bytes{FS} / (node_filesystem_size_bytes > 0))",
            "percentunit",
        ),
        number("Processes ended for memory", f"sum(increase(node_vmstat_oom_kill{H}[1h]))"),
        lines(
            "Processors by what they do",
            f"avg by (instance, mode) (rate(node_cpu_seconds_total{H}{RATE}))",
            "{{instance}} {{mode}}",
            "percentunit",
        ),
        lines("Load, 5 minutes", f"node_load5{H}", "{{instance}}"),
        lines("Memory available", f"node_memory_MemAvailable_bytes{H}", "{{instance}}", "bytes"),
        lines(
            "Waiting for memory, disk and processors",
            f"rate(node_pressure_io_waiting_seconds_total{H}{RATE})",
            "{{instance}} disk",
            "percentunit",
        ),
        lines(
            "Room on filesystems",
            f"node_filesystem_avail_bytes{FS}",
            "{{instance}} {{mountpoint}}",
            "bytes",
        ),
        lines("Inodes free", f"node_filesystem_files_free{FS}", "{{instance}} {{mountpoint}}"),
        lines(
            "Disks: time busy",
            f"rate(node_disk_io_time_seconds_total{H}{RATE})",
            "{{instance}} {{device}}",
            "percentunit",
        ),
        lines(
            "Disks: read",
            f"rate(node_disk_read_bytes_total{H}{RATE})",
            "{{instance}} {{device}}",
            "Bps",
        ),
        lines(
            "Network: received",
            f"rate(node_network_receive_bytes_total{NET}{RATE})",
            "{{instance}} {{device}}",
            "Bps",
        ),
        lines(
            "Network: sent",
            f"rate(node_network_transmit_bytes_total{NET}{RATE})",
            "{{instance}} {{device}}",
            "Bps",
        ),
        lines(
            "InfiniBand: sent",
            f"rate(node_infiniband_port_data_transmitted_bytes_total{H}{RATE})",
            "{{instance}} {{device}}",
            "Bps",
            Needs.INFINIBAND,
        ),
        lines(
            "InfiniBand: errors an hour",
            f"increase(node_infiniband_symbol_error_total{H}[1h])",
            "{{instance}} {{device}}",
            needs=Needs.INFINIBAND,
        ),
        lines(
            "NFS client: requests repeated",
            f"rate(node_nfs_rpc_retransmissions_total{H}{RATE})",
            "{{instance}}",
            "ops",
            Needs.KERNEL_NFS,
        ),
        lines(
            "NFS server: bytes read",
            f"rate(node_nfsd_disk_bytes_read_total{H}{RATE})",
            "{{instance}}",
            "Bps",
            Needs.KERNEL_NFSD,
        ),
        lines(
            "Temperatures",
            f"node_hwmon_temp_celsius{H}",
            "{{instance}} {{chip}} {{sensor}}",
            "celsius",
            Needs.HARDWARE_SENSORS,
        ),
        table("Units", 'node_systemd_unit_state{instance=~"$host",state="failed"}'),
    ),
)
