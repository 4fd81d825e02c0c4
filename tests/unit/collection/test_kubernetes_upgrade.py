"""One host on its way to the next release: in which order, taken up where it was cut off, and put back where it fails."""

import json
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.appliance.host.plugins.module_utils.resources import kubernetes_upgrade

OLD, NEW = "1.20.2-1", "1.21.2-1"
NAMES = ("kubeadm", "kubectl", "kubelet")
BEFORE, AFTER = "memory: old\n", "memory: new\n"


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return kubernetes_upgrade


class Tools:
    """The package manager of a pretended host."""

    def __init__(self, host: "Host") -> None:
        self.host = host

    def read(self) -> None:
        """Nothing is kept."""

    def mend(self) -> None:
        """Nothing is broken."""

    def refresh(self) -> None:
        self.host.done.append("refresh")
        self.host.offers = self.host.offers_later or self.host.offers

    def version(self, name: str) -> str:
        return self.host.packages.get(name, "")

    def offered(self, names: tuple[str, ...]) -> dict[str, list[str]]:
        return {name: list(self.host.offers) for name in names}

    def missing(self, names: list[str], pins: dict[str, str]) -> list[str]:
        return [f"{n}={v}" for n, v in pins.items() if self.host.packages.get(n) != v]

    def apply(self, wanted: list[str], unwanted: list[str]) -> None:
        self.host.done.append(f"install {' '.join(wanted)}")
        self.host.packages |= dict(w.split("=") for w in wanted)
        self.host.at(f"installed {wanted[-1]}")


class Killed(Exception):
    """The run ends here."""


class Host:
    """A pretended host, and all that was done to it, in order."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.settings = folder / "kubelet.yml"
        self.settings.write_text(BEFORE)
        self.params: dict[str, Any] = {
            "release": "1.21",
            "node": "head",
            "control": True,
            "first": True,
            "apis": ["10.0.0.1"],
            "settings": str(self.settings),
            "content": AFTER,
            "backup": {"at": "/backups", "keep": 28},
            "ignore": [],
            "skip": [],
            "wait": 0,
            **more,
        }
        self.packages = dict.fromkeys(NAMES, OLD)
        self.offers = [OLD, NEW]
        self.offers_later: list[str] = []
        self.running = OLD
        self.crashes: set[str] = set()
        self.fails: dict[str, str] = {}
        self.dies_at = ""
        self.unheard = 0
        self.snapshots = 0
        self.done: list[str] = []

    def at(self, point: str) -> None:
        if point == self.dies_at:
            self.dies_at = ""
            raise Killed(point)

    def run_command(self, argv: list[str], **_: Any) -> tuple[int, str, str]:
        said = " ".join(argv)
        told = next((text for start, text in self.fails.items() if said.startswith(start)), "")
        if told:
            self.done.append(said)
            return 1, "", told
        match argv[:2]:
            case ["kubeadm", "version"]:
                return 0, f"v{self.packages['kubeadm'][:-2]}\n", ""
            case ["kubeadm", "upgrade"]:
                self.at("kubeadm upgrade")
                self.done.append(said)
            case ["appliance-etcd", "save"]:
                self.snapshots += 1
                self.done.append("save")
                return 0, f"snapshot-{self.snapshots}\n", ""
            case ["systemctl", "restart"]:
                self.running = self.packages["kubelet"]
                self.done.append(f"restart {self.running}")
            case ["systemctl", "show"]:
                return 0, f"{3 if self.running in self.crashes else 0}\n", ""
            case ["kubectl", "--kubeconfig"]:
                return 0, self.node(), ""
        return 0, "", ""

    def node(self) -> str:
        well = "False" if self.running in self.crashes else "True"
        heard = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - self.unheard))
        ready = {"type": "Ready", "status": well, "message": "kubelet stopped"}
        ready["lastHeartbeatTime"] = heard
        info = {"kubeletVersion": f"v{self.running[:-2]}"}
        return json.dumps({"status": {"nodeInfo": info, "conditions": [ready]}})


@pytest.fixture
def host(tmp_path: Path, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(tmp_path)
    monkeypatch.setattr(module, "FOLDER", str(tmp_path))
    monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setattr(module, "available", lambda: True)
    monkeypatch.setattr(module, "Apt", lambda _: Tools(made))
    return made


def upgraded(module: ModuleType, host: Host) -> str:
    """Both steps, as the role takes them; what the first one tells."""
    told: str = module.Upgrade(host).begin()
    module.Upgrade(host).upgrade()
    return told


def failure(module: ModuleType, host: Host) -> str:
    with pytest.raises(module.Problem) as caught:
        upgraded(module, host)
    return str(caught.value)


def note(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.settings.with_name("upgrade.json").read_text())
    return found


def test_the_first_control_plane_saves_etcd_and_then_goes_step_by_step(
    module: ModuleType, host: Host
) -> None:
    told = upgraded(module, host)
    assert told == (
        "etcd is saved as snapshot-1 (appliance-etcd list); packages before: "
        "kubeadm 1.20.2-1, kubectl 1.20.2-1, kubelet 1.20.2-1"
    )
    assert host.done == [
        "save",
        f"install kubeadm={NEW} kubectl={NEW}",
        "kubeadm upgrade apply v1.21.2 --yes",
        f"install kubelet={NEW}",
        f"restart {NEW}",
    ]
    assert host.settings.read_text() == AFTER
    assert host.settings.stat().st_mode & 0o777 == 0o600
    assert note(host)["done"] is True


@pytest.mark.parametrize("control", [True, False])
def test_every_other_host_follows_once_the_control_plane_is_there(
    control: bool, module: ModuleType, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.params |= {"first": False, "control": control, "ignore": ["all"]}
    monkeypatch.setattr(module.Upgrade, "api", lambda *_: "v1.21.2")
    assert "etcd" not in upgraded(module, host)
    assert host.snapshots == 0
    assert "kubeadm upgrade node --ignore-preflight-errors=all" in host.done


@pytest.mark.parametrize(
    ("first", "words"), [(True, "apply v1.21.2 --yes"), (False, "node")], ids=["first", "another"]
)
def test_no_control_plane_gets_a_dns_server_the_site_supplies(
    first: bool, words: str, module: ModuleType, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.params |= {"first": first, "skip": ["addon/coredns"]}
    monkeypatch.setattr(module.Upgrade, "api", lambda *_: "v1.21.2")
    upgraded(module, host)
    assert f"kubeadm upgrade {words} --skip-phases=addon/coredns" in host.done


@pytest.mark.parametrize(
    ("control", "apis", "why"),
    [
        (False, {"a": "v1.20.2"}, "the control plane comes first, and a (v1.20.2) is older than"),
        (False, {"a": "v1.21.2", "b": "v1.20.2"}, "the control plane comes first, and b"),
        (True, {"a": "v1.20.2", "b": "v1.20.2"}, "the control plane comes first, and a"),
        (False, {"a": ""}, "no control plane answers"),
        (True, {"a": "v1.21.2", "b": "v1.20.2", "c": ""}, ""),
    ],
)
def test_no_kubelet_is_ever_newer_than_an_api(
    control: bool,
    apis: dict[str, str],
    why: str,
    module: ModuleType,
    host: Host,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host.params |= {"first": False, "control": control, "apis": list(apis)}
    monkeypatch.setattr(module.Upgrade, "api", lambda _, address: apis[address])
    if why:
        assert why in failure(module, host)
        assert host.done == []
    else:
        upgraded(module, host)


@pytest.mark.parametrize(
    ("offers", "why"),
    [
        ([OLD], "offers kubeadm and kubectl and kubelet 1.21: name one of that release"),
        ([NEW], "to which it would go back: keep the one of that release"),
    ],
)
def test_both_releases_must_be_to_be_had_before_anything_is_changed(
    offers: list[str], why: str, module: ModuleType, host: Host
) -> None:
    host.offers = offers
    assert why in failure(module, host)
    assert [d for d in host.done if d != "refresh"] == []


def test_a_release_that_came_into_the_repository_since_is_found(
    module: ModuleType, host: Host
) -> None:
    host.offers, host.offers_later = [OLD], [OLD, NEW, "1.21.10-1"]
    upgraded(module, host)
    assert set(host.packages.values()) == {"1.21.10-1"}


def test_etcd_that_cannot_be_saved_leaves_everything_as_it_was(
    module: ModuleType, host: Host
) -> None:
    host.fails["appliance-etcd"] = "appliance-etcd: no space left on device"
    assert failure(module, host).startswith("etcd is not saved, so nothing was changed: ")
    assert set(host.packages.values()) == {OLD}


def test_a_control_plane_kubeadm_cannot_upgrade_has_its_packages_back(
    module: ModuleType, host: Host
) -> None:
    host.fails["kubeadm upgrade"] = "[upgrade/apply] FATAL: these are the reasons:\n- etcd is sick"
    said = failure(module, host)
    assert said == (
        "kubeadm upgrade apply v1.21.2: [upgrade/apply] FATAL: these are the reasons: - etcd is sick; "
        "packages and kubelet are of 1.20.2 again; etcd before it: snapshot-1"
    )
    assert set(host.packages.values()) == {OLD}
    assert host.running == OLD
    host.fails.clear()
    assert "snapshot-2" in upgraded(module, host)
    assert set(host.packages.values()) == {NEW}


def test_a_kubelet_that_does_not_stay_up_goes_back_with_its_configuration(
    module: ModuleType, host: Host
) -> None:
    host.crashes = {NEW}
    said = failure(module, host)
    assert said == (
        "kubelet 1.21.2 does not stay up (journalctl -u kubelet); packages and kubelet are of 1.20.2 again, "
        "the control plane stays at 1.21.2; etcd before it: snapshot-1"
    )
    assert set(host.packages.values()) == {OLD}
    assert host.settings.read_text() == BEFORE
    host.crashes.clear()
    host.done.clear()
    # The control plane is through; only kubelet is left.
    assert "snapshot-1" in upgraded(module, host)
    assert not any(d.startswith(("kubeadm", "save")) for d in host.done)
    assert set(host.packages.values()) == {NEW}


def test_what_the_cluster_knew_before_the_restart_does_not_count(
    module: ModuleType, host: Host
) -> None:
    host.unheard = 3600
    module.Upgrade(host).begin()
    with pytest.raises(Exception, match=r"has not heard from it .* nor does 1\.20\.2 come back"):
        module.Upgrade(host).upgrade()


def test_what_does_not_come_back_either_is_told_with_the_packages_to_install(
    module: ModuleType, host: Host
) -> None:
    host.crashes = {NEW, OLD}
    said = failure(module, host)
    assert "nor does 1.20.2 come back" in said
    assert said.endswith(f"install kubeadm={OLD} kubectl={OLD} kubelet={OLD}")


@pytest.mark.parametrize(
    "point",
    [f"installed kubectl={NEW}", "kubeadm upgrade", f"installed kubelet={NEW}"],
)
def test_a_run_that_was_cut_off_goes_on_with_its_way_back(
    point: str, module: ModuleType, host: Host
) -> None:
    host.dies_at = point
    with pytest.raises(Killed):
        upgraded(module, host)
    assert "snapshot-1" in upgraded(module, host)
    assert host.snapshots == 1
    assert note(host)["from"] == dict.fromkeys(NAMES, OLD)
    assert set(host.packages.values()) == {NEW}
    assert host.running == NEW
    assert len([d for d in host.done if d.startswith("kubeadm upgrade apply")]) == 1


def test_a_host_that_is_through_is_left_alone_and_keeps_its_way_back(
    module: ModuleType, host: Host
) -> None:
    upgraded(module, host)
    host.done.clear()
    before = note(host)
    assert module.Upgrade(host).begin() == ""
    assert module.Upgrade(host).upgrade() is False
    assert host.done == []
    assert note(host) == before


def test_a_host_of_the_release_without_a_note_has_nothing_to_do(
    module: ModuleType, host: Host
) -> None:
    host.packages = dict.fromkeys(NAMES, NEW)
    assert upgraded(module, host) == ""
    assert host.done == []


def test_the_next_upgrade_has_a_way_back_of_its_own(module: ModuleType, host: Host) -> None:
    upgraded(module, host)
    host.offers = [NEW, "1.22.1-1"]
    host.params["release"] = "1.22"
    assert "snapshot-2" in upgraded(module, host)
    assert note(host)["from"] == dict.fromkeys(NAMES, NEW)


@pytest.mark.parametrize(
    ("version", "release", "fits"),
    [
        ("1.35.2-1.1", "1.35", True),
        ("0:1.35.2-150500.1.1", "1.35.2", True),
        ("1.35.20-1", "1.35.2", False),
        ("1.3.5-1", "1.35", False),
    ],
)
def test_a_package_belongs_to_a_release_by_its_numbers(
    version: str, release: str, fits: bool, module: ModuleType
) -> None:
    assert module.newest([version], release) == (version if fits else "")


def test_the_newest_is_so_by_numbers_not_by_letters(module: ModuleType) -> None:
    assert module.newest(["1.35.9-1", "1.35.10-1", "1.36.0-1"], "1.35") == "1.35.10-1"
