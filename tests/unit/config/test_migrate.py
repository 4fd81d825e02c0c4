"""A site of version 1 becomes one of version 2 that means the same, in its own words and order."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from appliance.cli.site import site
from appliance.config.load import load_site
from appliance.config.migrate import migrated, migration
from appliance.errors import ConfigError
from tests.support.site_files import ready_site


def run(*argv: str, answer: str = "") -> Result:
    """What the command prints, and its exit code."""
    return CliRunner().invoke(site, ["migrate", *argv], input=answer, standalone_mode=False)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("named", [True, False])
def test_only_the_version_and_the_missing_section_change(newline: str, named: bool) -> None:
    given = ["# ours", "version: 1  # of May", "name: acme", "hosts: []  # later"]
    given += ["slurm: {cluster: acme}"] if named else []
    text = newline.join([*given, ""])
    wanted = text.replace("version: 1 ", "version: 2 ")
    wanted += "" if named else f"{newline}slurm: {{}}{newline}"
    assert migrated(text, Path("site.yml")) == wanted
    assert migrated(wanted, Path("site.yml")) == wanted


def test_the_site_means_the_same_and_the_second_time_nothing_is_left(tmp_path: Path) -> None:
    folder = ready_site(tmp_path / "site")
    before = load_site(folder).site
    said = run(str(folder), "--yes")
    assert said.return_value == 0
    assert "-version: 1" in said.output
    assert "+slurm: {}" in said.output
    after = load_site(folder).site
    assert after == before.model_copy(update={"version": 2})
    again = run(str(folder), "--yes")
    assert (again.return_value, "already has version 2" in again.output) == (0, True)
    assert [f.name for f in folder.glob(".site-*")] == []


def test_who_declines_keeps_the_file(tmp_path: Path) -> None:
    folder = ready_site(tmp_path / "site")
    text = (folder / "site.yml").read_bytes()
    said = run(str(folder), answer="n\n")
    assert said.return_value == 1
    assert (folder / "site.yml").read_bytes() == text
    assert "Nothing was changed." in said.output


def test_a_mapping_in_braces_is_left_to_its_owner(tmp_path: Path) -> None:
    folder = ready_site(tmp_path / "site")
    file = folder / "site.yml"
    file.write_text(
        "{version: 1, name: mysite, profile: hpc, "
        "access: {private_key: secrets/id_ed25519, known_hosts: known_hosts}, "
        "networks: {management: {cidr: 10.0.0.0/24}}, "
        "hosts: [{name: head, roles: [control, gpu, storage], address: 10.0.0.10}], "
        "secrets: {munge_key: {file: secrets/munge_key}, "
        "slurmdbd_password: {file: secrets/slurmdbd_password}}}\n"
    )
    text = file.read_bytes()
    with pytest.raises(ConfigError, match="a YAML mapping in braces"), migration(file, load_site):
        pass
    assert file.read_bytes() == text
