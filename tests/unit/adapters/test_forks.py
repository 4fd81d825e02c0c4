"""Forks follow the hosts, as far as memory and processors carry them."""

from pathlib import Path

import pytest

from appliance.adapters import forks as module
from appliance.adapters.forks import forks

GIB = 1 << 20
"""In the kB of /proc/meminfo."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "meminfo"
    monkeypatch.setattr(module, "MEMINFO", file)
    return file


@pytest.mark.parametrize(
    ("hosts", "processors", "gib", "expected"),
    [
        (3, 2, 22, 5),
        (40, 2, 22, 40),
        (350, 2, 22, 50),
        (350, 16, 64, 256),
        (350, 64, 256, 350),
        (1000, 64, 256, 1000),
        (350, 16, 4, 16),
        (350, 16, 0, 5),
    ],
)
def test_forks_are_bounded_by_hosts_processors_and_memory(
    hosts: int,
    processors: int,
    gib: int,
    expected: int,
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine.write_text(f"MemTotal: 1 kB\nMemAvailable:   {gib * GIB} kB\n")
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    assert forks(hosts) == expected


@pytest.mark.parametrize("text", [None, "", "MemAvailable:\n", "MemAvailable: much kB\n"])
def test_a_kernel_that_does_not_tell_gives_the_usual_number(
    text: str | None, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is not None:
        machine.write_text(text)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert forks(350) == 50
