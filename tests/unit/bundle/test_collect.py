"""What a host sends for a support bundle: bounded, masked, and without following users' links."""

import base64
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.support import bounded, collect
from tests.support.bundled_tree import plant

LINES = "".join(f"line {number}\n" for number in range(2000))


def read(root: Path, **more: object) -> dict[str, dict[str, Any]]:
    request = {"since": 0, "units": ["slurmd.service"], "namespaces": [], "is_first": True, **more}
    lines = [json.loads(line) for line in collect.answer(request, str(root))]
    return {line["name"]: line for line in lines}


def text(part: dict[str, Any]) -> str:
    return zlib.decompress(base64.b64decode(part["text"])).decode()


def test_a_program_that_is_not_installed_is_named(tmp_path: Path) -> None:
    plant(tmp_path, {})
    part = read(tmp_path)["gpu/nvidia-smi.txt"]
    assert (part["missing"], part["text"]) == ("nvidia-smi: not installed", "")


def test_logs_configuration_and_reports_are_read(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "program journalctl": "slurmd started",
            "file var/log/slurm/slurmd.log": "debug",
            "file etc/slurm/slurm.conf": "ClusterName=acme",
            "report nvidia-bug-report.sh": "Xid 79",
        },
    )
    found = read(tmp_path)
    assert text(found["journal/units.log"]) == "slurmd started"
    assert text(found["logs/slurm/slurmd.log"]) == "debug"
    assert text(found["configuration/etc/slurm/slurm.conf"]) == "ClusterName=acme"
    assert "Xid 79" in text(found["vendor/nvidia-bug-report.txt"])
    assert list((tmp_path / "run").iterdir()) == []


def test_a_file_that_users_may_not_read_is_left_out(tmp_path: Path) -> None:
    plant(tmp_path, {})
    closed = tmp_path / "etc/slurm/slurmdbd.conf"
    closed.write_text("StorageHost=x")
    closed.chmod(0o600)
    part = read(tmp_path)["configuration/etc/slurm/slurmdbd.conf"]
    assert "closed to users" in part["missing"]
    assert part["text"] == ""


def _as_slurm(path: Path) -> None:
    """The folder of Slurm's logs belongs to slurm, which could put a link there to what root alone reads."""
    os.chown(path.parent, 64030, 64030)


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parents[2] / "secret")


def _hard_link(path: Path) -> None:
    path.unlink()
    path.hardlink_to(path.parents[2] / "secret")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _of_a_person(path: Path) -> None:
    os.chown(path.parent, 1234, 1234)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other accounts")
@pytest.mark.parametrize(
    ("put", "is_read"),
    [
        (lambda path: None, True),
        (_link, False),
        (_hard_link, False),
        (_pipe, False),
        (_of_a_person, False),
    ],
)
def test_roots_log_in_the_folder_of_a_daemon_is_read_and_no_link_there(
    put: Callable[[Path], None], is_read: bool, tmp_path: Path
) -> None:
    plant(tmp_path, {"file var/log/slurm/slurmd.log": "debug"})
    (tmp_path / "var/secret").write_text("canary")
    log = tmp_path / "var/log/slurm/slurmd.log"
    log.chmod(0o600)
    _as_slurm(log)
    put(log)
    part = read(tmp_path)["logs/slurm/slurmd.log"]
    assert (text(part) if part["text"] else "") == ("debug" if is_read else "")
    assert bool(part["missing"]) is not is_read


def test_a_log_that_did_not_change_in_the_window_is_left_out(tmp_path: Path) -> None:
    plant(tmp_path, {"file var/log/slurm/slurmd.log": "old"})
    os.utime(tmp_path / "var/log/slurm/slurmd.log", (1000, 1000))
    part = read(tmp_path, since=2000)["logs/slurm/slurmd.log"]
    assert (part["missing"], part["text"]) == ("unchanged in the window", "")


def test_of_a_long_log_the_end_is_kept_from_the_beginning_of_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "MOST", 1000)
    plant(tmp_path, {"file var/log/slurm/slurmd.log": LINES, "program dmesg": LINES})
    found = read(tmp_path)
    for name in ("logs/slurm/slurmd.log", "kernel/dmesg.txt"):
        kept = text(found[name])
        assert LINES.endswith(f"\n{kept}")
        assert 900 < len(kept) <= 1000
        assert found[name]["missing"] == "its beginning"


def test_a_host_sends_no_more_than_its_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "ROOM", len(LINES) + 10)
    plant(tmp_path, {"program journalctl": LINES, "program dmesg": "small"})
    found = read(tmp_path)
    assert text(found["journal/units.log"]) == LINES
    assert "no room" in found["journal/kernel.log"]["missing"]
    assert text(found["kernel/dmesg.txt"]) == "small"


def test_a_program_that_hangs_is_ended_and_named(tmp_path: Path) -> None:
    done = bounded.output(["/bin/sh", "-c", "echo whole; printf begun; sleep 60"], 0.5, 100)
    assert (done.status, done.text) == (None, "whole")


def test_what_takes_too_long_is_named_and_the_rest_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, {"program dmesg": "kernel"})
    slow = tmp_path / "usr/bin/journalctl"
    slow.write_text("#!/bin/sh\nsleep 30\n")
    monkeypatch.setattr(collect, "PROGRAM_S", 0.2)
    found = read(tmp_path)
    assert "did not end" in found["journal/units.log"]["missing"]
    assert text(found["kernel/dmesg.txt"]) == "kernel"


def test_namespaces_are_names(tmp_path: Path) -> None:
    plant(tmp_path, {})
    program = tmp_path / "usr/bin/kubectl"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    found = read(tmp_path, namespaces=["kube-system", "--all", "../x"])
    assert "--namespace=kube-system" in text(found["kubernetes/kube-system/state.txt"])
    assert not [name for name in found if "--all" in name or ".." in name]


def test_a_host_without_time_sends_what_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the control machine would give up, and have nothing of it."""
    monkeypatch.setattr(collect, "LAST_S", -1.0)
    plant(tmp_path, {"program dmesg": "kernel"})
    part = read(tmp_path)["kernel/dmesg.txt"]
    assert (part["missing"], part["text"]) == ("no time was left for this host", "")
