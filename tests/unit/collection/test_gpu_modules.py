"""The modules of role gpu: what they accept, choose and refuse, and in which order they change a driver."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.appliance.host.plugins.module_utils import disk, gpu_kernel, gpu_packages
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem
from ansible_collections.appliance.host.plugins.module_utils.resources import gpu_driver

OLD, NEW = "580.82.07-1", "580.95.05-1"
ENTRIES = [["nvidia-kernel-open-dkms"], ["nvidia-fabricmanager", "nvidia-fabricmanager-580"]]


class Failed(Exception):
    """fail_json was called."""


class Host:
    """A pretended host: its packages, driver, and all that was done to it, in order."""

    check_mode = False

    def __init__(self, **params: Any) -> None:
        self.params = {
            "packages": [
                "nvidia-kernel-open-dkms",
                "nvidia-fabricmanager|nvidia-fabricmanager-580",
            ],
            "release": "580",
            "pins": {},
            "source": "",
            "clients": ["nvidia-persistenced.service"],
            "container": True,
            **params,
        }
        self.installed: dict[str, str] = {}
        self.offers = {
            name: [OLD, NEW] for name in ("nvidia-kernel-open-dkms", "nvidia-fabricmanager")
        }
        self.loaded = ""
        self.gpus = 8
        self.dead: set[str] = set()
        self.silent: dict[str, int] = {}
        self.done: list[str] = []
        self.held = True

    def fail_json(self, msg: str, **_: Any) -> None:
        raise Failed(msg)

    def get_bin_path(self, name: str) -> str:
        return f"/usr/bin/{name}"

    def run_command(self, argv: list[str], **_: Any) -> tuple[int, str, str]:
        words = argv[2:] if argv[0] == "timeout" else argv
        if words[0] == "systemctl":
            if words[1] != "is-active":
                self.done.append(f"{words[1]} {words[2]}")
            return 0, "", ""
        return self._kernel(words)

    def _kernel(self, words: list[str]) -> tuple[int, str, str]:
        if words[0] == "nvidia-smi":
            if not self.loaded:
                return (
                    9,
                    "",
                    "NVIDIA-SMI has failed because it couldn't communicate with the driver",
                )
            count = self.silent.get(self.loaded, self.gpus)
            return 0, f"{self.loaded}\n" * count, ""
        assert words[0] == "modprobe"
        if "-r" in words:
            self.done.append("unload")
            self.loaded = ""
            return 0, "", ""
        version = next(iter(self.installed.values())).partition("-")[0]
        if version in self.dead:
            return 1, "", "modprobe: ERROR: could not insert 'nvidia': No such device"
        self.done.append(f"load {version}")
        self.loaded = version
        return 0, "", ""


class Packages:
    """The package manager of a pretended host."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def read(self) -> None:
        pass

    def version(self, name: str) -> str:
        return self.host.installed.get(name, "")

    def held(self, wanted: dict[str, str]) -> bool:
        return self.host.held

    def hold(self, wanted: dict[str, str]) -> None:
        self.host.held = True

    def refresh(self, source: str) -> None:
        self.host.done.append("refresh")

    def offered(self, names: list[str]) -> dict[str, list[str]]:
        return {name: self.host.offers[name] for name in names if name in self.host.offers}

    def move(self, wanted: dict[str, str]) -> None:
        self.host.done.append(f"install {next(iter(wanted.values()))}")
        self.host.installed = dict(wanted)


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs the module on a pretended host; what it must remember lies in ``tmp_path``."""
    driver = gpu_driver
    monkeypatch.setattr(driver, "NOTE", str(tmp_path / "note.json"))
    monkeypatch.setattr(driver, "AptDriver", Packages)
    monkeypatch.setattr(driver, "available", lambda: True)
    monkeypatch.setattr(driver, "_booted", lambda: True)
    monkeypatch.setattr(driver, "ANSWER_SECONDS", 0)
    monkeypatch.setattr(gpu_kernel.Kernel, "holders", lambda _: [])
    return lambda host: driver.Change(host).run()


def working(version: str = OLD, **params: Any) -> Host:
    """A host whose driver works."""
    host = Host(**params)
    host.installed = dict.fromkeys(("nvidia-kernel-open-dkms", "nvidia-fabricmanager"), version)
    host.loaded = version.partition("-")[0]
    return host


def test_a_bare_host_gets_the_newest_of_the_branch(change: Any) -> None:
    host = Host()
    result = change(host)
    assert host.done == [
        "refresh",
        f"install {NEW}",
        "load 580.95.05",
    ]
    assert (result["changed"], result["version"], result["before"]) == (True, "580.95.05", "")


def test_an_installed_version_of_the_branch_stays(change: Any) -> None:
    host = working(OLD)
    assert change(host)["changed"] is False
    assert host.done == []


def test_a_driver_that_works_is_unloaded_changed_and_loaded(change: Any) -> None:
    host = working(OLD, release="580.95.05")
    result = change(host)
    assert host.done == [
        "refresh",
        "stop nvidia-persistenced.service",
        "unload",
        f"install {NEW}",
        "load 580.95.05",
        "restart nvidia-persistenced.service",
        "start nvidia-persistenced.service",
    ]
    assert (result["before"], result["version"], result["reboot"]) == (
        "580.82.07",
        "580.95.05",
        False,
    )


def test_processes_on_the_gpus_are_named_and_the_services_come_back(
    change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_kernel.Kernel, "holders", lambda _: ["python3 (47)"])
    host = working(OLD, release="580.95.05")
    with pytest.raises(Problem, match=r"python3 \(47\)"):
        change(host)
    assert host.done[-1] == "start nvidia-persistenced.service"
    assert host.loaded == "580.82.07"


@pytest.mark.parametrize(
    ("hurt", "why"),
    [
        ({"dead": {"580.95.05"}}, "could not insert 'nvidia': No such device"),
        ({"silent": {"580.95.05": 7}}, "7 GPUs answer, 8 did before"),
    ],
)
def test_what_does_not_come_up_is_rolled_back(change: Any, hurt: dict[str, Any], why: str) -> None:
    host = working(OLD, release="580.95.05")
    vars(host).update(hurt)
    with pytest.raises(Problem) as caught:
        change(host)
    assert why in str(caught.value)
    assert "rolled back to 580.82.07, which works" in str(caught.value)
    assert host.loaded == "580.82.07"
    assert set(host.installed.values()) == {OLD}


def test_where_nothing_comes_back_both_are_named(
    change: Any,
) -> None:
    host = working(OLD, release="580.95.05")
    host.dead = {"580.95.05", "580.82.07"}
    with pytest.raises(Problem, match="does not come back"):
        change(host)


def test_a_change_that_was_cut_off_is_finished(change: Any, tmp_path: Path) -> None:
    host = working(NEW, release="580.95.05")
    note = {"before": {}, "answered": 8, "stopped": ["nvidia-persistenced.service"]}
    (tmp_path / "note.json").write_text(json.dumps(note))
    assert change(host)["changed"] is True
    assert host.done == ["start nvidia-persistenced.service"]
    assert list(tmp_path.iterdir()) == []
    assert change(host)["changed"] is False


def test_a_driver_that_lost_its_hold_gets_it_back(change: Any) -> None:
    host = working(OLD)
    host.held = False
    assert change(host)["changed"] is True
    assert host.held
    assert change(host)["changed"] is False


def test_a_silent_driver_is_not_changed_under_who_uses_it(
    change: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu_kernel, "LOADED", str(tmp_path))
    monkeypatch.setattr(gpu_kernel.Kernel, "holders", lambda _: ["python3 (47)"])
    monkeypatch.setattr(gpu_kernel.Kernel, "refusal", lambda _: "")
    host = working(OLD, release="580.95.05", container=False)
    host.loaded = ""
    with pytest.raises(Problem, match=r"python3 \(47\)"):
        change(host)
    assert set(host.installed.values()) == {OLD}


@pytest.fixture
def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host on which secure boot is on; the place of its machine owner key, which is not there."""
    (tmp_path / "SecureBoot").write_bytes(b"\6\0\0\0\1")
    monkeypatch.setattr(gpu_kernel, "SECURE_BOOT", str(tmp_path / "SecureBoot"))
    monkeypatch.setattr(gpu_kernel, "OWNER_KEYS", (str(tmp_path / "mok.pub"),))
    return tmp_path / "mok.pub"


def refused(said: str) -> str:
    module = SimpleNamespace(run_command=lambda *_, **__: (1, said, ""))
    return gpu_kernel.Kernel(module).refusal()


def test_secure_boot_without_an_enrolled_key_is_refused_with_a_way_that_the_host_has(
    secured: Path,
) -> None:
    assert "mokutil --import" not in refused("")
    assert "docs/gpu.md, Secure boot, makes it" in refused("")
    secured.touch()
    assert f"mokutil --import {secured}, confirm it at the console" in refused("is not enrolled")
    assert refused(f"{secured} is already enrolled") == ""


def test_a_host_without_secure_boot_needs_no_key(secured: Path) -> None:
    (secured.parent / "SecureBoot").write_bytes(b"\6\0\0\0\0")
    assert refused("") == ""
    (secured.parent / "SecureBoot").unlink()
    assert refused("") == ""


class Apt:
    """apt on a pretended host: what is held, and what it was told."""

    def __init__(self, module: Any) -> None:
        self.installed = {"nvidia-smi": SimpleNamespace(desired="i")}
        self.answer = (0, "", "")
        self.asked: list[list[str]] = []

    def hold(self, names: list[str]) -> None:
        self.installed = {name: SimpleNamespace(desired="h") for name in names}

    def patiently(self, argv: list[str]) -> tuple[int, str, str]:
        self.asked.append(argv)
        return self.answer


@pytest.fixture
def apt_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    packages = gpu_packages
    monkeypatch.setattr(packages, "Apt", Apt)
    monkeypatch.setattr(packages, "PREFERENCES", str(tmp_path / "preferences"))
    monkeypatch.setitem(disk.Staged.__init__.__globals__, "set_attributes", lambda *_: None)
    return packages.AptDriver(SimpleNamespace(selinux_enabled=lambda: False))


def test_the_driver_is_held_by_marks_and_preferences_both(apt_driver: Any, tmp_path: Path) -> None:
    wanted = {"nvidia-smi": NEW}
    file = tmp_path / "preferences"
    assert not apt_driver.held(wanted)
    apt_driver.hold(wanted)
    assert apt_driver.held(wanted)
    assert "Pin: version 580.95.05*" in file.read_text()
    # Emptied by a power cut, or by somebody.
    file.write_text("")
    assert not apt_driver.held(wanted)
    apt_driver.hold(wanted)
    assert apt_driver.held(wanted)
    assert list(tmp_path.iterdir()) == [file]


def test_a_source_whose_lists_cannot_be_fetched_is_told(
    apt_driver: Any,
) -> None:
    said = "E: Failed to fetch http://mirror/InRelease  Could not connect to mirror:80\n"
    apt_driver.apt.answer = (100, "", said)
    with pytest.raises(Problem, match="Could not connect to mirror:80"):
        apt_driver.refresh("/etc/apt/sources.list.d/appliance-nvidia.sources")
    # apt-get ends with 0 otherwise, and tells of an unreachable mirror in a warning.
    assert "APT::Update::Error-Mode=any" in apt_driver.apt.asked[0]


def test_a_release_nobody_offers_is_refused_with_those_there_are(
    change: Any,
) -> None:
    host = Host(release="570")
    with pytest.raises(Problem) as caught:
        change(host)
    assert "of driver 570 (there is 580.82.07, 580.95.05)" in str(caught.value)


def test_versions_are_of_one_release_and_one_for_all_packages() -> None:
    packages = gpu_packages
    assert packages.upstream("3:580.95.05-1.el9") == "580.95.05"
    assert packages.of_release("580.95.05-0ubuntu1", "580")
    assert not packages.of_release("580.95.05-1", "58")
    offered = {
        "nvidia-kernel-open-dkms": ["580.105.08-1", NEW, OLD],
        "nvidia-fabricmanager-580": [NEW, OLD],
    }
    # The fabric manager is not offered in the newest driver's version, so that driver is not taken.
    assert packages.choose(ENTRIES, offered, "580", {}) == {
        "nvidia-kernel-open-dkms": NEW,
        "nvidia-fabricmanager-580": NEW,
    }
    assert packages.order("580.105.08-1") > packages.order(NEW)
    assert packages.choose(ENTRIES, offered, "575", {}) == {}


def test_of_several_builds_of_a_driver_the_pinned_one_else_the_newest_is_taken() -> None:
    builds = {"nvidia-kernel-open-dkms": ["580.95.05-2", NEW]}
    entry = ["nvidia-kernel-open-dkms"]
    for pins, chosen in (
        ({}, "580.95.05-2"),
        ({entry[0]: NEW}, NEW),
        ({entry[0]: "1"}, "580.95.05-2"),
    ):
        assert gpu_packages.choose([entry], builds, "580", pins) == {entry[0]: chosen}


def test_another_build_of_the_same_driver_is_put_back(change: Any) -> None:
    host = working(NEW, pins={"nvidia-kernel-open-dkms": NEW})
    host.installed["nvidia-kernel-open-dkms"] = "580.95.05-2evil"
    host.offers["nvidia-kernel-open-dkms"] = ["580.95.05-2", NEW]
    assert change(host)["changed"] is True
    assert host.done[:4] == [
        "refresh",
        "stop nvidia-persistenced.service",
        "unload",
        f"install {NEW}",
    ]
    assert set(host.installed.values()) == {NEW}
    assert change(host)["changed"] is False


# A key made for this test by gpg 2.2 (ed25519), and what gpg says its fingerprint is.
