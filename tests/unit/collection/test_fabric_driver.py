"""The adapters' driver: brought in its release, changed by a reboot, and taken off again."""

import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from ansible_collections.appliance.host.plugins.module_utils.resources import fabric_driver

OLD, NEW, OTHER = "3.1.0-091000", "3.1.1-000001", "3.2.1-044000"
MODULES = {OLD: "25.07-0.9.7", NEW: "25.07-1.0.0", OTHER: "25.10-1.2.8"}


@pytest.fixture(scope="module")
def driver() -> ModuleType:
    """The role's module."""
    return fabric_driver


class Failed(Exception):
    """fail_json was called."""


class Host:
    """A pretended host, its packages, its loaded driver, and all that was done to it, in order."""

    check_mode = False

    def __init__(self, folder: Path, **params: Any) -> None:
        self.folder = folder
        self.source = folder / "doca.sources"
        self.params = {
            "driver": "doca",
            "release": "3.1",
            "source": str(self.source),
            "may_reboot": True,
            **params,
        }
        self.package = ""
        self.held = False
        self.offers = [NEW, OLD]
        self.done: list[str] = []
        self.module = folder / "sys/module/mlx5_core/version"
        self.module.parent.mkdir(parents=True, exist_ok=True)

    def reboot(self) -> None:
        self.module.unlink(missing_ok=True)
        if self.package:
            self.module.write_text(MODULES[self.package] + "\n")

    def get_bin_path(self, name: str) -> str:
        return f"/usr/bin/{name}"

    def fail_json(self, msg: str, **_: Any) -> None:
        raise Failed(msg)

    def run_command(self, argv: list[str], **_: Any) -> tuple[int, str, str]:
        words = argv[2:] if argv[0] == "timeout" else argv
        if words[0] == "ofed_info":
            return (0, f"OFED-internal-{MODULES[self.package]}:\n", "") if self.package else (127, "", "")  # fmt: skip
        assert words[0].endswith("ofed_uninstall.sh")
        self.done.append("uninstall")
        self.package = ""
        return 0, "", ""


class Packages:
    """Its package manager."""

    def __init__(self, host: Host) -> None:
        self.host = host

    @property
    def installed(self) -> dict[str, Any]:
        found = SimpleNamespace(desired="h" if self.host.held else "i")
        return {"doca-ofed": found} if self.host.package else {}

    def read(self) -> None:
        pass

    def refresh(self) -> None:
        pass

    def offered(self, names: list[str]) -> dict[str, list[str]]:
        return {"doca-ofed": list(self.host.offers)}

    def hold(self, names: list[str]) -> None:
        assert names == ["doca-ofed"]
        self.host.held = True

    def version(self, name: str) -> str:
        return self.host.package

    def apply(self, wanted: list[str], unwanted: list[str]) -> None:
        self.host.done.append(f"install {wanted[0]}" if wanted else f"remove {unwanted[0]}")
        self.host.package = wanted[0].partition("=")[2] if wanted else ""


@pytest.fixture
def change(driver: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    mark = tmp_path / "simulated.json"
    mark.write_text(json.dumps({"sysfs": str(tmp_path / "sys")}))
    uninstall = tmp_path / "ofed_uninstall.sh"
    uninstall.write_text("")
    monkeypatch.setattr(driver, "MARK", str(mark))
    monkeypatch.setattr(driver, "UNINSTALL", str(uninstall))
    monkeypatch.setattr(driver, "Apt", Packages)
    monkeypatch.setattr(driver, "available", lambda: True)
    return lambda host: driver.Change(host).run()


def brought(folder: Path, version: str = OLD, **params: Any) -> Host:
    """A host that has it already."""
    host = Host(folder, **params)
    host.package, host.held = version, True
    host.source.write_text("")
    host.reboot()
    return host


def test_a_host_gets_the_release_and_asks_for_a_reboot(change: Any, tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.source.write_text("")
    first = change(host)
    assert host.done == [f"install doca-ofed={NEW}"]
    assert (first["changed"], first["reboot"], host.held) == (True, True, True)
    host.reboot()
    second = change(host)
    assert (second["changed"], second["reboot"]) == (False, False)


def test_an_installed_version_of_the_release_stays(change: Any, tmp_path: Path) -> None:
    host = brought(tmp_path, OLD)
    assert change(host) == {
        "changed": False,
        "reboot": False,
        "resources": [{"kind": "package", "name": "doca-ofed"}],
    }
    assert host.done == []


def test_another_release_is_brought_and_loaded_by_the_next_boot(
    change: Any, tmp_path: Path
) -> None:
    host = brought(tmp_path, OLD, release="3.2")
    host.offers = [OTHER, NEW]
    assert change(host)["reboot"] is True
    assert host.done == [f"install doca-ofed={OTHER}"]


def test_one_that_was_never_loaded_is_loaded_by_a_reboot(change: Any, tmp_path: Path) -> None:
    host = brought(tmp_path)
    host.module.unlink()
    assert change(host)["reboot"] is True
    assert host.done == []


def test_a_release_nobody_offers_is_refused_with_those_there_are(
    change: Any, driver: ModuleType, tmp_path: Path
) -> None:
    host = Host(tmp_path, release="2.9")
    with pytest.raises(driver.Problem, match=f"offers doca-ofed 2.9 .there is {NEW}, {OLD}"):
        change(host)
    assert host.done == []


def test_nothing_is_touched_where_the_plan_named_no_reboot(
    change: Any, driver: ModuleType, tmp_path: Path
) -> None:
    host = Host(tmp_path, may_reboot=False)
    with pytest.raises(driver.Problem, match="the plan did not include"):
        change(host)
    assert host.done == []


def test_it_goes_the_makers_way_back_to_the_kernels_own(change: Any, tmp_path: Path) -> None:
    host = brought(tmp_path, driver="inbox")
    assert change(host)["reboot"] is True
    assert host.done == ["uninstall"]
    host.reboot()
    assert change(host) == {"changed": False, "reboot": False, "resources": []}
    assert host.done == ["uninstall"]


def test_what_somebody_else_installed_is_left_alone(change: Any, tmp_path: Path) -> None:
    host = brought(tmp_path, driver="inbox")
    host.source.unlink()
    assert change(host)["changed"] is False
    assert host.done == []


@pytest.mark.parametrize(
    ("version", "release", "is_of"),
    [(OLD, "3.1", True), (OLD, "3.1.0", True), (OLD, "3.1.1", False), ("3.10.0-1", "3.1", False), ("", "3.1", False)],
)  # fmt: skip
def test_a_version_is_of_a_release_by_whole_numbers(
    driver: ModuleType, version: str, release: str, is_of: bool
) -> None:
    assert driver.of_release(version, release) is is_of
