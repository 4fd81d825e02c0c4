"""appliance validate and lab: what is refused before a host is met."""

from pathlib import Path

import click
import pytest

from appliance.cli.main import cli
from appliance.config.new_secrets import write_secrets
from appliance.errors import ConfigError

SITE = """version: 1
name: acme
profile: hpc
access: {user: root}
networks: {management: {cidr: 10.1.0.0/24}}
hosts:
  - {name: head, roles: [control, storage, login], address: 10.1.0.10}
  - {name: gpu-1, roles: [gpu], address: 10.1.0.11}
secrets: {munge_key: {file: secrets/munge_key}, slurmdbd_password: {file: secrets/slurmdbd_password}}
"""
IMAGE = ("--container-image", "nvcr.io#nvidia/pytorch:26.01-py3")


def test_a_container_needs_a_site_that_brings_containers(tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text(SITE)
    (tmp_path / "known_hosts").write_text("")
    write_secrets(tmp_path / "secrets")
    argv = ["validate", "gpt3", "--site", str(tmp_path), *IMAGE]
    with pytest.raises(ConfigError, match=r"site acme has no section slurm\.containers") as raised:
        cli.main(argv, standalone_mode=False)
    assert "docs/containers.md" in raised.value.hint


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("storage", *IMAGE), "appliance validate gpt3"),
        (("scheduler", *IMAGE), "appliance validate gpt3"),
        (("gpt3", "--from-logs", ".", *IMAGE), "appliance validate gpt3"),
        (("gpt3", "--container-mounts", "/a:/b"), "needs --container-image"),
        (("gpt3", "--container-image", "pytorch; rm"), "write it as nvcr.io"),
        (("gpt3", *IMAGE, "--container-mounts", "data"), "write it as /data:/data"),
    ],
)
def test_a_container_that_makes_no_sense_is_refused(argv: tuple[str, ...], said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        cli.main(["validate", *argv], standalone_mode=False)


def test_a_folder_without_logs_is_unusable_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no training logs found"):
        cli.main(["validate", "gpt3", "--from-logs", str(tmp_path)], standalone_mode=False)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("status", "--name", "nope"), "no rack named nope"),
        (("up", "--name", "Bad Name"), "cannot name a rack"),
        (("up", "--count", "1000"), "1 to 32 hosts"),
    ],
)
def test_a_rack_that_cannot_be_is_unusable_input(argv: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        cli.main(["lab", *argv], standalone_mode=False)
