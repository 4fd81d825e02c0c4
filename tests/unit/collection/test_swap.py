"""appliance.host.swap on a pretended host."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.collection_host import Host

Run = Callable[..., dict[str, Any]]
HEAD = "Filename\tType\tSize\tUsed\tPriority\n"
ON = f"{HEAD}/swap.img file 4194300 1024 -2\n/dev/zram0 partition 100 0 100\n"
TABLE = "/dev/sda1 / ext4 defaults 0 1\n/swap.img\tnone\tswap\tsw\t0\t0\n# /old none swap sw 0 0\n/dev/x /swap xfs rw 0 0\n"


@pytest.fixture
def place(
    plugin: Callable[[str], ModuleType],
    host: Host,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A machine that swaps to a file and to compressed memory."""
    module = plugin("module_utils.resources.swap")
    for name, at in (("FSTAB", "fstab"), ("UNITS", "units"), ("IN_USE", "swaps")):
        monkeypatch.setattr(module, name, str(tmp_path / at))
    monkeypatch.setattr(plugin("module_utils.disk"), "set_attributes", lambda *_: None)
    (tmp_path / "units").mkdir()
    (tmp_path / "swaps").write_text(ON)
    (tmp_path / "fstab").write_text(TABLE)
    host.answer("systemctl mask", (0, "", ""))
    host.answer("systemctl list-unit-files", (0, "zramswap.service enabled enabled\n", ""))
    host.answer("systemctl list-units", (0, "swap.img.swap loaded active active /swap.img\n", ""))
    return tmp_path


def turned_off(place: Path, host: Host) -> None:
    """swapoff does what it says, and so does systemctl mask."""
    host.answer("swapoff", (0, "", ""))
    (place / "swaps").write_text(HEAD)
    for unit in ("swap.target", "zramswap.service", "swap.img.swap"):
        (place / "units" / unit).symlink_to("/dev/null")


def test_swap_goes_now_and_for_good(
    run: Run,
    host: Host,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    plugin: Callable[[str], ModuleType],
) -> None:
    seen = iter([["/swap.img", "/dev/zram0"], []])
    monkeypatch.setattr(plugin("module_utils.resources.swap"), "in_use", lambda: next(seen))
    host.answer("swapoff", (0, "", ""))
    answer = run("swap")
    assert answer["changed"]
    assert answer["was"] == ["/swap.img", "/dev/zram0"]
    assert host.called("systemctl mask") == [
        "systemctl mask swap.target",
        "systemctl mask --now zramswap.service",
        "systemctl mask swap.img.swap",
    ]
    assert host.called("swapoff") == ["swapoff --all"]
    wanted = TABLE.replace("/swap.img\t", "# swap, off for Kubernetes (appliance): /swap.img\t")
    assert (place / "fstab").read_text() == wanted


def test_a_host_without_swap_is_left_alone(run: Run, host: Host, place: Path) -> None:
    turned_off(place, host)
    (place / "fstab").write_text(TABLE.replace("/swap.img", "# /swap.img"))
    answer = run("swap")
    assert not answer["changed"]
    assert answer["resources"] == [{"kind": "link", "name": f"{place}/units/swap.target"}]
    assert not host.called("systemctl mask") + host.called("swapoff")


def test_check_mode_changes_nothing(run: Run, host: Host, place: Path) -> None:
    assert run("swap", check=True)["changed"]
    assert (place / "fstab").read_text() == TABLE
    assert not host.called("systemctl mask") + host.called("swapoff")


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (
            (255, "", "swapoff: /swap.img: swapoff failed: Cannot allocate memory\n"),
            "Cannot allocate memory",
        ),
        ((0, "", ""), "swap is still on: /swap.img, /dev/zram0"),
    ],
)
def test_swap_that_stays_on_is_told(
    run: Run, host: Host, place: Path, answer: tuple[int, str, str], line: str
) -> None:
    host.answer("swapoff", answer)
    assert line in run("swap")["msg"]
