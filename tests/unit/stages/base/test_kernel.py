"""The kernel's messages of failures: the table, what the probe makes of a log, and how it is judged."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.facts_host import KernelEvent
from appliance.models.result import CheckResult, Status
from appliance.probe.kernel_log import MOST, events
from appliance.stages.base.kernel_log import asked, kernel_log
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

EXAMPLES = {
    "blk_update_request: I/O error, dev sda, sector 12345678 op 0x0:(READ) flags 0x80700": (
        "io-error",
        "sda",
    ),
    "critical medium error, dev nvme0n1, sector 8 op 0x0:(READ)": ("io-error", "nvme0n1"),
    "Buffer I/O error on dev dm-0, logical block 17, async page read": ("buffer-error", "dm-0"),
    "EXT4-fs error (device sda2): ext4_find_entry:1455: inode #2: comm systemd": ("ext4", "sda2"),
    "EXT4-fs (sda2): Remounting filesystem read-only": ("ext4", "sda2"),
    "XFS (md0): Metadata CRC error detected at xfs_agf_read_verify": ("xfs", "md0"),
    "BTRFS error (device sdb1): bdev /dev/sdb1 errs: wr 1": ("btrfs", "sdb1"),
    "nvme nvme0: controller is down; will reset: CSTS=0xffffffff": ("nvme-down", "nvme0"),
    "nvme nvme0: I/O 12 QID 3 timeout, aborting": ("nvme-timeout", "nvme0"),
    "ata1.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen": ("ata", "ata1.00"),
    "md/raid1:md0: Disk failure on sda1, disabling device.": ("md", "md0"),
    "watchdog: BUG: soft lockup - CPU#14 stuck for 23s! [python:4711]": ("lockup", "CPU#14"),
    "rcu: INFO: rcu_sched self-detected stall on CPU": ("rcu-stall", ""),
    "INFO: task nvidia-smi:3321 blocked for more than 120 seconds.": ("hung-task", ""),
    "BUG: unable to handle page fault for address: ffffc9000": ("oops", ""),
    "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: be00004000010091": ("mce-fatal", ""),
    "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010091": ("mce", ""),
    "mce: [Hardware Error]: Machine check events logged": ("mce", ""),
    "Out of memory: Killed process 9911 (python) total-vm:8123": ("out-of-memory", ""),
    "pcieport 0000:00:01.0: AER: Uncorrectable (Fatal) error message received": (
        "pcie",
        "0000:00:01.0",
    ),
    "mlx5_core 0000:1a:00.0: poll_health:1013: device's health compromised - reached miss count": (
        "adapter",
        "0000:1a:00.0",
    ),
    "mlx5_core 0000:1a:00.0: Port module event[error]: module 0, Cable error, High Temperature": (
        "adapter-cable",
        "0000:1a:00.0",
    ),
    "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 3 timed out": ("transmit-timeout", "eth0"),
    "CPU12: Package temperature above threshold, cpu clock throttled": ("throttled", ""),
    "nfs: server head not responding, still trying": ("nfs-silent", "head"),
    "sd 2:0:0:0: rejecting I/O to offline device": ("disk-offline", "2:0:0:0"),
    "nf_conntrack: nf_conntrack: table full, dropping packet": ("conntrack-full", ""),
    "neighbour: arp_cache: neighbor table overflow!": ("neighbour-table", ""),
    "cgroup: fork rejected by pids controller in /system.slice/slurmd.service": (
        "fork-rejected",
        "/system.slice/slurmd.service",
    ),
    "VFS: file-max limit 65536 reached": ("open-files", ""),
    "kworker/3:1: page allocation failure: order:4, mode:0x40dc0": ("page-allocation", ""),
    "bond0: (slave eth1): link status definitely down, disabling slave": ("bond", "bond0"),
}


def told(*texts: str) -> list[dict[str, Any]]:
    return events([(text, 40.0 + n) for n, text in enumerate(texts)], asked(), 100.0)


@pytest.mark.parametrize(("text", "expected"), EXAMPLES.items())
def test_a_message_of_the_kernel_is_known_with_its_part(
    text: str, expected: tuple[str, str]
) -> None:
    (event,) = told(text)
    assert (event["id"], event["what"], event["age"]) == (*expected, 60.0)


def test_every_row_of_the_table_has_an_example() -> None:
    assert {name for name, _ in EXAMPLES.values()} == {row.id for row in kernel_log().messages}


@pytest.mark.parametrize(
    "text",
    [
        "python[4711]: EXT4-fs error (device sda2): made up",
        "Memory cgroup out of memory: Killed process 99 (python)",
        "EXT4-fs (sda2): mounted filesystem with ordered data mode",
        "nvme nvme0: 16/0/0 default/read/poll queues",
        "audit: type=1400 I/O error, dev sda, sector 1",
    ],
)
def test_what_only_looks_like_one_is_left_alone(text: str) -> None:
    assert told(text) == []


def test_alike_messages_are_counted_and_the_last_one_is_kept() -> None:
    line = "critical medium error, dev sda, sector {} op 0x0"
    (event,) = told(line.format(1), line.format(2), line.format(3))
    assert (event["count"], event["age"]) == (3, 58.0)
    assert "sector 3" in event["text"]


def test_what_ended_is_taken_back() -> None:
    silent, ended = "nfs: server head not responding, still trying", "nfs: server head OK"
    assert told(silent, ended) == []
    assert len(told(silent, ended, silent)) == 1


def test_a_flood_of_parts_is_bounded() -> None:
    assert len(told(*(f"ata{n}: hard resetting link" for n in range(500)))) == MOST


def judged(
    *found: KernelEvent, container: str = "", unread: bool = False, **site: Any
) -> CheckResult:
    facts = facts_of("gpu-1", os={"container": container}, kernel_events=None if unread else found)
    view = View(profile_of(), site_of("gpu-1", **site), {"gpu-1": facts})
    (one,) = said_by("base.kernel_log", view)
    return one


ERROR = KernelEvent(
    id="io-error", what="sda", count=2, age=120, text="I/O error, dev sda, sector 1"
)


def test_a_disk_error_fails_with_its_disk() -> None:
    found = judged(ERROR)
    assert (found.status, found.target) == (Status.FAIL, "gpu-1/sda")
    assert "the disk returned an error, 2 times, 2 min ago" in found.cause
    assert "smartctl -a /dev/sda" in found.fix


def test_a_hung_task_warns() -> None:
    task = KernelEvent(id="hung-task", count=1, age=7200, text="INFO: task x:1 blocked")
    found = judged(task)
    assert found.status is Status.WARN
    assert "2.0 h ago" in found.cause


def test_an_old_message_says_nothing_and_a_site_may_look_further_back() -> None:
    old = ERROR.model_copy(update={"age": 30 * 3600.0})
    assert judged(old).status is Status.PASS
    limit = {"base.kernel_log": {"value": 48, "unit": "h", "source": "ours"}}
    assert judged(old, limits=limit).status is Status.FAIL


def test_a_quiet_log_passes_and_an_unread_one_is_not_assessed() -> None:
    assert judged().status is Status.PASS
    found = judged(unread=True)
    assert (found.status, found.required) == (Status.NOT_ASSESSED, True)
    found = judged(container="systemd-nspawn", unread=True)
    assert (found.status, found.required) == (Status.NOT_ASSESSED, False)
