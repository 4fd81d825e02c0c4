"""What is downloaded ahead comes from the roles, and Debian from where the machine gets it."""

from pathlib import Path

import pytest

from appliance.errors import ConfigError
from appliance.lab.recipe import Recipe, role_packages
from appliance.provision.sources import Sources, debian_lines


def _vars(roles: Path, role: str, name: str, text: str) -> None:
    folder = roles / role / "vars"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.yml").write_text(text)


def test_no_roles_need_no_packages(tmp_path: Path) -> None:
    assert role_packages(tmp_path / "missing") == {}


def test_the_systems_file_overrides_main_and_the_releases_overrides_both(tmp_path: Path) -> None:
    _vars(tmp_path, "slurm", "main", "slurm_packages: [munge]\n")
    _vars(tmp_path, "slurm", "Debian", "slurm_packages: [slurmd]\nslurm_db_packages: [mariadb]\n")
    _vars(tmp_path, "slurm", "Debian-12", "slurm_db_packages: [mariadb-server]\n")
    _vars(tmp_path, "slurm", "RedHat", "slurm_packages: [slurm]\n")
    assert role_packages(tmp_path) == {"slurm": ("slurmd", "mariadb-server")}


def test_only_lists_of_plain_names_count(tmp_path: Path) -> None:
    text = 'a_packages: ["{{ x }}", tmux]\nb_packages: no list\nother: [vim]\n'
    _vars(tmp_path, "base", "main", text)
    assert role_packages(tmp_path) == {"base": ("tmux",)}


def test_broken_or_empty_vars_are_left_to_ansible(tmp_path: Path) -> None:
    _vars(tmp_path, "base", "main", "")
    _vars(tmp_path, "base", "Debian", "a: [\n")
    assert role_packages(tmp_path) == {}


def test_sources_are_the_machines_own_debian_archives_only() -> None:
    targets = (
        "http://a/debian/|bookworm|bookworm|main|Debian\n"
        "http://a/debian/|bookworm-updates|bookworm-updates|main|Debian\n"
        "http://other/|stable|stable|main|Other\n"
    )
    assert debian_lines(targets) == (
        "deb http://a/debian/ bookworm main",
        "deb http://a/debian/ bookworm-updates main",
    )


def test_a_newer_debian_builds_the_same_image() -> None:
    targets = "http://a/debian/|trixie-updates|trixie-updates|main|Debian\n"
    assert debian_lines(targets) == ("deb http://a/debian/ bookworm-updates main",)


def test_a_machine_without_debian_is_told() -> None:
    with pytest.raises(ConfigError, match="no Debian archive"):
        debian_lines("")


def test_the_image_is_another_when_its_recipe_changes() -> None:
    sources = Sources(("deb http://a bookworm main",), "", {})
    assert Recipe(sources).digest != Recipe(sources, packages=("systemd",)).digest
    assert Recipe(sources).digest == Recipe(sources).digest
