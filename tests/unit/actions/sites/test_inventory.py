"""Hosts for other programs: the real Ansible reads the inventory, and real ssh reaches a host with it."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from appliance.actions.sites import inventory as action
from appliance.adapters.process import run
from appliance.config import data
from appliance.config.load import LoadedSite, load_site
from appliance.engine.run.stage_run import play_of
from appliance.errors import ConfigError
from appliance.models.plan import Action, HostStage
from appliance.models.site import Role
from appliance.stages.catalog import STAGES
from tests.golden.record import SITES, at_work
from tests.support.command_line import run as appliance
from tests.support.site_files import ready_site
from tests.support.ssh_server import SshServer, serving

ROOT = Path(__file__).parents[4]
BIN = Path(sys.executable).parent
FQCN = "appliance.host.site"
SECONDS = 120


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Four GPU hosts, in a folder whose name has spaces and quotes."""
    return ready_site(tmp_path / "Tom's own site")


def ansible(tmp_path: Path, *argv: str) -> str:
    """What a program of Ansible prints; it sees this checkout's collection and its program, and no settings of the caller."""
    environment = {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_HOME": str(tmp_path / "ansible"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "playbooks/collections"),
    }
    done = run(
        (str(BIN / argv[0]), *argv[1:]), cwd=tmp_path, env=environment, timeout=SECONDS, check=False
    )
    return done.stdout + done.stderr


def unmarked(value: Any) -> Any:
    """``value`` without Ansible's marks of texts that are no templates."""
    if isinstance(value, Mapping):
        return value.get("__ansible_unsafe") or {k: unmarked(v) for k, v in value.items()}
    return value


def script(tmp_path: Path, site: Path) -> Path:
    """An inventory script as docs/interfaces.md shows it."""
    file = tmp_path / "hosts"
    file.write_text(f'#!/bin/sh\nexec {BIN}/appliance inventory --ansible --site "{site}" "$@"\n')
    file.chmod(0o755)
    return file


def plugin(tmp_path: Path, site: str, name: str = "appliance.yml") -> Path:
    file = tmp_path / name
    file.write_text(f'plugin: {FQCN}\nsite: "{site}"\n')
    return file


def test_script_and_plugin_give_ansible_the_same_inventory(tmp_path: Path, site: Path) -> None:
    expected = action.ansible_tree(load_site(site))
    named = plugin(tmp_path, site.name)
    lists = [
        json.loads(ansible(tmp_path, "ansible-inventory", "-i", str(source), "--list"))
        for source in (script(tmp_path, site), named)
    ]
    for found in lists:
        assert unmarked(found["_meta"]["hostvars"]) == expected["_meta"]["hostvars"]  # type: ignore[index]
        groups = {role.value: found[role.value]["hosts"] for role in Role if role.value in found}
        assert groups == {
            "control": ["head"],
            "gpu": [f"gpu-{n}" for n in range(1, 5)],
            "storage": ["head"],
            "login": ["head"],
        }
    graph = ansible(tmp_path, "ansible-inventory", "-i", str(named), "--graph")
    assert "  |--@control:\n  |  |--head\n" in graph
    assert "WARNING" not in graph


@pytest.mark.parametrize("name", SITES)
def test_connection_and_groups_are_those_of_a_deployment(name: str, tmp_path: Path) -> None:
    with at_work(name, tmp_path) as made:
        session = replace(made.made.session, data=data.root())
        stage = STAGES[0]
        cells = [
            HostStage(stage=stage.name, host=host.name, action=Action.RUN)
            for host in session.site.hosts
        ]
        request = play_of(session, stage, cells, made.prepared, {})
        found = action.ansible_tree(load_site(session.folder))
    of_play = {
        host: {key: value for key, value in variables.items() if key.startswith("ansible_")}
        for host, variables in request.hosts.items()
    }
    of_others: Any = found["_meta"]
    own = {"ansible_host_key_checking", "ansible_ssh_common_args", "ansible_ssh_private_key_file"}
    assert of_play == {
        host: {key: value for key, value in variables.items() if key not in own}
        for host, variables in of_others["hostvars"].items()
    }
    groups = {role.value: tuple(found[role.value]["hosts"]) for role in Role}  # type: ignore[index]
    assert groups == request.groups
    for variables in of_others["hostvars"].values():
        assert f'"{request.known_hosts}"' in variables["ansible_ssh_common_args"].replace("\\", "")
        key = variables.get("ansible_ssh_private_key_file")
        assert key == (str(request.private_key) if request.private_key else None)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    (tmp_path / "home").mkdir()
    with serving(tmp_path / "home") as found:
        yield found


def reached(tmp_path: Path, site: Path, server: SshServer) -> str:
    """What Ansible prints that runs a command on host head, which is the server."""
    server.give_key(site / "secrets/id_ed25519")
    loaded = load_site(site)
    head = loaded.site.host("head").model_copy(update={"address": IPv4Address(server.address)})
    access = loaded.site.access.model_copy(update={"port": server.port})
    changed = loaded.site.model_copy(update={"hosts": (head,), "access": access})
    tree = action.ansible_tree(replace(loaded, site=changed))
    file = tmp_path / "printed"
    file.write_text(f"#!/bin/sh\ncat <<'EOF'\n{json.dumps(tree)}\nEOF\n")
    file.chmod(0o755)
    return ansible(tmp_path, "ansible", "-i", str(file), "all", "-m", "raw", "-a", "echo reached")


@pytest.mark.skipif(not shutil.which("ssh"), reason="needs the OpenSSH client")
def test_ssh_reaches_a_host_whose_key_is_pinned_and_no_other(
    tmp_path: Path, site: Path, server: SshServer
) -> None:
    assert "UNREACHABLE" in reached(tmp_path, site, server)
    assert server.commands == []
    server.pin(site / "known_hosts")
    assert "reached" in reached(tmp_path, site, server)


def test_unknown_site_is_named_with_its_remedy(tmp_path: Path) -> None:
    said = ansible(
        tmp_path, "ansible-inventory", "-i", str(plugin(tmp_path, "elsewhere")), "--graph"
    )
    assert f"{tmp_path}/elsewhere does not exist" in said
    assert "fix: create a site" in said


def test_host_prints_one_hosts_variables(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ("inventory", "--ansible", "--site", str(site))
    assert appliance(monkeypatch, *argv, "--host", "gpu-2") == 0
    tree: Any = action.ansible_tree(load_site(site))
    assert json.loads(capsys.readouterr().out) == tree["_meta"]["hostvars"]["gpu-2"]
    assert appliance(monkeypatch, *argv, "--host", "gpu-9") == 2
    assert capsys.readouterr().err.splitlines()[0] == "--host gpu-9: no such host"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give one of --ansible and --prometheus-sd"),
        (("--ansible", "--prometheus-sd"), "give one of --ansible and --prometheus-sd"),
        (("--prometheus-sd", "--list"), "--list and --host need --ansible"),
        (("--ansible", "--list", "--host", "head"), "--list and --host exclude each other"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    words: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert appliance(monkeypatch, "inventory", *words) == 2
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1] == f"Error: {said}"
    assert captured.out == ""


def test_site_without_pinned_keys_has_targets_but_no_inventory(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "known_hosts").unlink()
    assert appliance(monkeypatch, "inventory", "--ansible", "-i", str(site)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "no host key is pinned yet" in captured.err
    assert appliance(monkeypatch, "inventory", "--prometheus-sd", "-i", str(site)) == 0


@pytest.mark.parametrize("name", ["100%", 'say "hi"', "{{ lookup('pipe', 'id') }}", "back\\slash"])
def test_path_that_ssh_would_read_differently_is_refused(tmp_path: Path, name: str) -> None:
    loaded = load_site(ready_site(tmp_path / name))
    with pytest.raises(ConfigError, match="which ssh_config and Ansible cannot express"):
        action.ansible_tree(loaded)


def targets(loaded: LoadedSite) -> dict[str, dict[str, str]]:
    found: list[Any] = action.prometheus_targets(loaded)
    return {address: group["labels"] for group in found for address in group["targets"]}


def test_exporters_have_the_jobs_and_names_of_the_sites_own_prometheus(site: Path) -> None:
    found = targets(load_site(site))
    assert found["10.0.0.10:9100"] == {
        "job": "node",
        "instance": "head",
        "host": "head",
        "roles": "control,storage,login",
        "cluster": "mysite",
    }
    assert found["10.0.0.14:9400"] == {
        "job": "dcgm",
        "instance": "gpu-4",
        "host": "gpu-4",
        "roles": "gpu",
        "cluster": "mysite",
        "class": "hpc",
    }
    assert len(found) == 9
    template = (ROOT / "roles/observe/templates/etc/prometheus/prometheus.yml.j2").read_text()
    for job in {labels["job"] for labels in found.values()}:
        assert f"job_name: {job}\n" in template


def test_exporters_of_simulated_gpus_are_left_out(site: Path) -> None:
    loaded = load_site(site)
    rack = replace(loaded, site=loaded.site.model_copy(update={"simulated": ("gpu",)}))
    assert {labels["job"] for labels in targets(rack).values()} == {"node"}
