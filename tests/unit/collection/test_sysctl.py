"""appliance.host.sysctl on a pretended /proc/sys."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Run = Callable[..., dict[str, Any]]
Plugin = Callable[[str], ModuleType]


@pytest.fixture
def kernel(plugin: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of parameters, on a machine; files belong to whoever runs the test."""
    module = plugin("module_utils.resources.sysctl")
    monkeypatch.setattr(module, "ROOT", str(tmp_path / "sys"))
    monkeypatch.setattr(module, "in_container", lambda: False)
    monkeypatch.setattr(module, "attributes_differ", lambda *_: [])
    monkeypatch.setattr(plugin("module_utils.disk"), "set_attributes", lambda *_: None)
    for key, value in {"vm/swappiness": "60", "net/ipv4/tcp_rmem": "4096\t1\t2"}.items():
        (tmp_path / "sys" / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / key).write_text(value + "\n")
    return tmp_path


def test_what_differs_is_set_and_all_is_written(run: Run, kernel: Path) -> None:
    wanted = {"vm.swappiness": 1, "net.ipv4.tcp_rmem": "4096 1 2"}
    answer = run("sysctl", settings=wanted, file=str(kernel / "f.conf"))
    assert answer["set"] == ["vm.swappiness: 60 -> 1"]
    assert (kernel / "sys/vm/swappiness").read_text() == "1\n"
    assert (
        (kernel / "f.conf")
        .read_text()
        .endswith("vm.swappiness = 1\nnet.ipv4.tcp_rmem = 4096 1 2\n")
    )
    managed = {"kind": "sysctl", "name": "vm.swappiness", "wanted": {"value": "1"}}
    assert managed in answer["resources"]
    assert not run("sysctl", settings=wanted, file=str(kernel / "f.conf"))["changed"]


def test_check_mode_sets_nothing(run: Run, kernel: Path) -> None:
    answer = run("sysctl", check=True, settings={"vm.swappiness": 1}, file=str(kernel / "f.conf"))
    assert answer["changed"]
    assert (kernel / "sys/vm/swappiness").read_text() == "60\n"
    assert not (kernel / "f.conf").exists()


def test_a_parameter_the_kernel_lacks_is_an_error_on_a_machine(run: Run, kernel: Path) -> None:
    answer = run("sysctl", settings={"vm.nothing": 1}, file=str(kernel / "f.conf"))
    assert answer["msg"] == "sysctl vm.nothing: this kernel has no such parameter"
    assert not (kernel / "f.conf").exists()


def test_ipv6_is_left_out_where_the_kernel_has_none(run: Run, kernel: Path) -> None:
    wanted = {"net.ipv6.conf.all.accept_redirects": 0, "vm.swappiness": 1}
    answer = run("sysctl", settings=wanted, file=str(kernel / "f.conf"))
    assert answer["not_settable"] == ["net.ipv6.conf.all.accept_redirects"]
    assert "ipv6" not in (kernel / "f.conf").read_text()
    assert [item["name"] for item in answer["resources"][1:]] == ["vm.swappiness"]
    (kernel / "sys/net/ipv6/conf").mkdir(parents=True)
    assert "no such parameter" in run("sysctl", settings=wanted, file=str(kernel / "f.conf"))["msg"]


def test_a_container_leaves_its_machines_parameters_alone(
    run: Run, plugin: Plugin, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin("module_utils.resources.sysctl"), "in_container", lambda: True)
    wanted = {"vm.swappiness": 1, "net.ipv4.tcp_rmem": "1 2 3", "net.core.rmem_max": 5}
    answer = run("sysctl", settings=wanted, file=str(kernel / "f.conf"))
    assert answer["not_settable"] == ["vm.swappiness", "net.core.rmem_max"]
    assert (kernel / "sys/vm/swappiness").read_text() == "60\n"
    assert (kernel / "sys/net/ipv4/tcp_rmem").read_text() == "1 2 3\n"
    assert "swappiness" not in (kernel / "f.conf").read_text()
    assert not run("sysctl", settings=wanted, file=str(kernel / "f.conf"))["changed"]


def test_a_dot_in_a_name_is_written_as_sysctl_does(plugin: Plugin) -> None:
    place = plugin("module_utils.resources.sysctl").place
    assert place("net.ipv4.conf.eth0/5.mtu") == "/proc/sys/net/ipv4/conf/eth0.5/mtu"
    assert place("net/ipv4/conf/eth0.5/mtu") == "/proc/sys/net/ipv4/conf/eth0.5/mtu"
