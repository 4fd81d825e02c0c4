"""What the simulated driver logs is what the probe reads from a kernel log."""

from pathlib import Path

from appliance.lab import kernel_log
from appliance.stages.gpu.collect import xids

FIRST, SECOND = "0000:07:00.0", "0000:0f:00.0"


def _messages(root: Path) -> list[str]:
    return xids.messages((root / kernel_log.FILE).read_text())


def test_a_healthy_host_has_a_log_that_goes_back_to_its_start(tmp_path: Path) -> None:
    kernel_log.clear(tmp_path)
    (record,) = (tmp_path / kernel_log.FILE).read_text().splitlines()
    assert record.startswith("5,0,0,-;")


def test_a_complaint_names_the_gpu_as_the_driver_does(tmp_path: Path) -> None:
    kernel_log.clear(tmp_path)
    kernel_log.add_xid(tmp_path, FIRST, 63)
    (message,) = _messages(tmp_path)
    assert message.startswith("NVRM: Xid (PCI:0000:07:00): 63, pid=1896, ")
    record = (tmp_path / kernel_log.FILE).read_text().splitlines()[1].partition(";")[0].split(",")
    assert (record[0], record[3]) == ("3", "-")
    assert int(record[2]) > 0


def test_only_that_gpus_complaints_of_that_number_are_forgotten(tmp_path: Path) -> None:
    kernel_log.clear(tmp_path)
    for address, xid in ((FIRST, 7), (FIRST, 79), (SECOND, 79), (FIRST, 79)):
        kernel_log.add_xid(tmp_path, address, xid)
    kernel_log.remove_xid(tmp_path, FIRST, 79)
    kept = [message.partition(", ")[0] for message in _messages(tmp_path)]
    assert kept == ["NVRM: Xid (PCI:0000:07:00): 7", "NVRM: Xid (PCI:0000:0f:00): 79"]


def test_forgetting_where_nothing_was_logged_is_fine(tmp_path: Path) -> None:
    kernel_log.remove_xid(tmp_path, FIRST, 79)
    assert not (tmp_path / kernel_log.FILE).exists()
