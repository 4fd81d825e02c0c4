"""site.yml with another owner of a host: nothing else of it changes, and what may not be never reaches the disk."""

import stat
from pathlib import Path

import pytest

from appliance.config.finding import InvalidConfig
from appliance.config.load import LoadedSite, load_site
from appliance.config.site_edit import give_owner, with_owner, without, without_host
from appliance.errors import ConfigError
from appliance.models.site import Owner

HEAD = """# A site of ours.
version: 1
name: acme
profile: hpc
networks: {management: {cidr: 10.1.0.0/24}}
"""
TAIL = """secrets: {munge_key: {env: A}, slurmdbd_password: {env: B}, kubernetes_encryption_key: {env: C}}
kubernetes: {version: "1.35", device_plugin: own}
"""
BLOCK = """hosts:
  - name: head
    roles: [control, storage, login]
    address: 10.1.0.10
  # the loud one
  - name: gpu-1   # rack 4
    roles: [gpu]
    address: 10.1.0.11
"""
FORMS = {
    "block": (BLOCK, "  - name: gpu-1   # rack 4\n    owner: slurm\n    roles: [gpu]\n"),
    "name last": (
        BLOCK.replace("  - name: gpu-1   # rack 4\n    roles", "  - roles") + "    name: gpu-1\n",
        "    name: gpu-1\n    owner: slurm\n",
    ),
    "there already": (
        f"{BLOCK}    owner:   kubernetes  # since May\n",
        "    owner:   slurm  # since May\n",
    ),
    "there and empty": (f"{BLOCK}    owner:\n", "    owner: slurm\n"),
    "quoted": (f'{BLOCK}    owner: "kubernetes"\n', "    owner: slurm\n"),
    "flow": (
        """hosts:
  - {name: head, roles: [control, storage, login], address: 10.1.0.10}
  - {name: "gpu-1", roles: [gpu], address: 10.1.0.11}  # rack 4
""",
        '  - {name: "gpu-1", owner: slurm, roles: [gpu], address: 10.1.0.11}  # rack 4\n',
    ),
}


def load(file: Path) -> LoadedSite:
    return load_site(file)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a site's file goes; the secrets it names are there."""
    (tmp_path / "known_hosts").write_text("")
    for name in "ABC":
        monkeypatch.setenv(name, "x")
    return tmp_path / "site.yml"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_one_word_changes_and_every_other_byte_stays(form: str, newline: str, site: Path) -> None:
    hosts, changed = FORMS[form]
    before = (HEAD + hosts + TAIL).replace("\n", newline).encode()
    site.write_bytes(before)
    site.chmod(0o640)
    loaded = give_owner(site, "gpu-1", Owner.SLURM, load)
    assert loaded.site.owner(loaded.site.host("gpu-1")) is Owner.SLURM
    after = site.read_bytes()
    assert changed.replace("\n", newline).encode() in after
    gone = [line for line in before.splitlines() if line not in after.splitlines()]
    added = [line for line in after.splitlines() if line not in before.splitlines()]
    assert len(gone) <= 1
    assert len(added) == 1
    assert stat.S_IMODE(site.stat().st_mode) == 0o640
    assert load_site(site).site == loaded.site
    assert {p.name for p in site.parent.iterdir()} == {"known_hosts", "site.yml"}


def test_there_and_back_is_the_owner_alone(site: Path) -> None:
    site.write_text(HEAD + BLOCK + TAIL)
    give_owner(site, "gpu-1", Owner.SLURM, load)
    give_owner(site, "gpu-1", Owner.KUBERNETES, load)
    assert site.read_text() == (HEAD + BLOCK + TAIL).replace(
        "# rack 4\n", "# rack 4\n    owner: kubernetes\n"
    )


def test_a_file_without_a_last_newline_and_with_a_mark_keeps_both(site: Path) -> None:
    text = HEAD + TAIL + FORMS["name last"][0]
    site.write_bytes(b"\xef\xbb\xbf" + text.rstrip().encode())
    give_owner(site, "gpu-1", Owner.SLURM, load)
    assert site.read_bytes().startswith(b"\xef\xbb\xbf# A site")
    assert site.read_text("utf-8-sig").endswith("    name: gpu-1\n    owner: slurm\n")


def test_a_link_stays_a_link(site: Path) -> None:
    real = site.parent / "real" / "acme.yml"
    real.parent.mkdir()
    (real.parent / "known_hosts").write_text("")
    real.write_text(HEAD + BLOCK + TAIL)
    site.symlink_to(real)
    give_owner(site, "gpu-1", Owner.SLURM, load)
    assert site.is_symlink()
    assert "owner: slurm" in real.read_text()


def test_what_may_not_be_is_refused_by_line_and_the_file_is_as_it_was(site: Path) -> None:
    text = HEAD + BLOCK.replace("gpu-1   # rack 4", "gpu-1") + TAIL.split("kubernetes:")[0]
    site.write_text(text)
    with pytest.raises(InvalidConfig) as raised:
        give_owner(site, "gpu-1", Owner.KUBERNETES, load)
    assert "the site has no Kubernetes" in str(raised.value)
    assert str(raised.value).startswith(f"{site}: ")
    assert site.read_text() == text
    assert {p.name for p in site.parent.iterdir()} == {"known_hosts", "site.yml"}


def test_a_host_that_is_not_there_is_said(site: Path) -> None:
    with pytest.raises(ConfigError, match="has no host gpu-9"):
        with_owner(HEAD + BLOCK + TAIL, site, "gpu-9", Owner.SLURM)


LEFT = {
    "block": (BLOCK, BLOCK.split("  - name: gpu-1")[0]),
    "before another": (
        f"{BLOCK}\n  # and the quiet one\n  - name: gpu-2\n    roles: [gpu]\n    address: 10.1.0.12\n",
        BLOCK.split("  - name: gpu-1")[0]
        + "\n  # and the quiet one\n  - name: gpu-2\n    roles: [gpu]\n    address: 10.1.0.12\n",
    ),
    "nested": (
        f"{BLOCK}    labels:\n      row: a\n  # the end\n",
        BLOCK.split("  - name: gpu-1")[0] + "  # the end\n",
    ),
    "flow": (FORMS["flow"][0], FORMS["flow"][0].split('  - {name: "gpu-1"')[0]),
}


@pytest.mark.parametrize("form", LEFT)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_host_goes_with_its_lines_and_every_comment_stays(
    form: str, newline: str, site: Path
) -> None:
    hosts, left = ((HEAD + text + TAIL).replace("\n", newline) for text in LEFT[form])
    assert without_host(hosts, site, "gpu-1") == left


def test_a_list_in_brackets_is_not_edited(site: Path) -> None:
    hosts = "hosts: [{name: head, roles: [control, storage, login], address: 10.1.0.10}]\n"
    with pytest.raises(ConfigError, match="a list in brackets"):
        without_host(HEAD + hosts, site, "head")


def test_the_site_without_a_host_is_written_nowhere_before_it_is_valid(site: Path) -> None:
    site.write_text(HEAD + BLOCK + TAIL + "mig: {hosts: {gpu-1: all-1g.10gb}}\n")
    before = site.read_text()
    with pytest.raises(InvalidConfig, match="gpu-1"), without(site, "gpu-1", load):
        pass
    assert site.read_text() == before
    assert list(site.parent.glob(".site-*")) == []
