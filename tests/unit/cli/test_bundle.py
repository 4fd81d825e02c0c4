"""appliance bundle, with a small archive of packages on this machine; Python packages are left out."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from appliance.actions.sites import bundle as action
from appliance.actions.sites import bundle_needs as needs
from appliance.actions.sites.bundle_needs import PackageList
from appliance.airgap import download, wheels
from appliance.airgap.manifest import NAME, BundleFile
from appliance.cli.main import cli
from appliance.config.load import load_site
from tests.unit.airgap.conftest import Archive, archive

__all__ = ["archive"]

SITE = """\
version: 2
name: tiny
profile: hpc
networks: {management: {cidr: 10.1.0.0/24}}
hosts:
  - {name: head, roles: [control, login], address: 10.1.0.1}
  - {name: gpu-1, roles: [gpu], address: 10.1.0.11}
slurm: {cluster: tiny}
secrets: {munge_key: {env: A}, slurmdbd_password: {env: A}}
"""
LISTS = [PackageList("slurm", ("slurmd",)), PackageList("tools", ("jq", "one", "other"))]


class Ran(NamedTuple):
    """How a command ended, and what it printed."""

    exit_code: int
    output: str


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "site.yml").write_text(SITE)
    return folder


@pytest.fixture
def lists(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> list[PackageList]:
    """What the site's roles install, from the archive alone."""
    found = list(LISTS)

    def no_wheels(folder: Path, locks: Mapping[str, str], tell: Any) -> list[BundleFile]:
        del folder, locks, tell
        return []

    def sources(*_: object) -> Iterator[Any]:
        yield archive.source

    monkeypatch.setattr(action, "_distribution", sources)
    monkeypatch.setattr(needs, "system_lists", lambda *_: iter(found))
    monkeypatch.setattr(needs, "publishers", lambda *_: iter(()))
    monkeypatch.setattr(wheels, "bring", no_wheels)
    return found


def _run(*argv: object) -> Ran:
    found = CliRunner().invoke(cli, ["bundle", *map(str, argv)], standalone_mode=False)
    error = found.exception
    if error is None:
        return Ran(found.return_value, found.output)
    return Ran(getattr(error, "exit_code", 130), f"{found.output}{error}")


def _fetch(site: Path, folder: Path, *more: object) -> Ran:
    return _run("fetch", "--site", site, "--os", "debian-12", "--to", folder, *more)


def _names(folder: Path) -> set[str]:
    files = json.loads((folder / NAME).read_text())["files"]
    return {f["name"] for f in files if f["kind"] == "package"}


def test_a_plan_counts_packages_with_their_dependencies(
    site: Path, lists: Sequence[PackageList], archive: Archive
) -> None:
    found = _run("plan", "--site", site, "--os", "debian-12")
    assert found.exit_code == 0, found.output
    assert re.search(rf"^package +debian-12 +5 .*{archive.uri}", found.output, re.MULTILINE)


def test_a_bundle_is_fetched_verified_and_updated(
    site: Path, lists: Sequence[PackageList], archive: Archive, tmp_path: Path
) -> None:
    folder, old = tmp_path / "bundle", tmp_path / "old.json"
    assert _fetch(site, folder).exit_code == 0
    assert _names(folder) == {"slurmd", "munge", "jq", "one", "other"}
    assert _run("verify", folder).exit_code == 0
    old.write_bytes((folder / NAME).read_bytes())
    archive.packages = [p for p in archive.packages if p.name != "jq"]
    archive.add("jq", "1.7")
    archive.publish()
    archive.asked.clear()
    assert _fetch(site, folder).exit_code == 0
    assert [path for path in archive.asked if path.endswith(".deb")] == ["/./jq_1.7_all.deb"]
    assert not (folder / "publisher/jq_1.6_all.deb").exists()
    assert _run("verify", folder).exit_code == 0
    said = _run("diff", old, folder).output
    assert "  ~ package jq debian-12 1.6 -> 1.7\n" in said
    assert "munge" not in said


def test_a_delta_is_copied_over_the_earlier_bundle(
    site: Path, lists: Sequence[PackageList], archive: Archive, tmp_path: Path
) -> None:
    folder, delta = tmp_path / "bundle", tmp_path / "delta"
    _fetch(site, folder)
    archive.packages = [p for p in archive.packages if p.name != "jq"]
    archive.add("jq", "1.7")
    archive.publish()
    assert _fetch(site, delta, "--since", folder / NAME).exit_code == 0
    assert [file.name for file in delta.rglob("*.deb")] == ["jq_1.7_all.deb"]
    said = _run("verify", delta)
    assert said.exit_code == 0
    assert "a delta: copy it over the bundle" in said.output
    served = _run("serve", delta, "--address", "127.0.0.1")
    assert served.exit_code == 1
    assert "nothing is served" in served.output
    for file in delta.rglob("*"):
        if file.is_file():
            (folder / file.relative_to(delta)).write_bytes(file.read_bytes())
    said = _run("verify", folder)
    assert said.exit_code == 0, said.output
    assert "delta" not in said.output
    (folder / "publisher/munge_0.5_all.deb").unlink()
    said = _run("verify", folder)
    assert said.exit_code == 1
    assert "missing  publisher/munge_0.5_all.deb" in said.output


def test_an_interrupted_download_continues(
    site: Path,
    lists: Sequence[PackageList],
    archive: Archive,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, keep, kept = tmp_path / "bundle", download._keep, list[str]()

    def killed(staging: Path, target: Path, file: BundleFile) -> None:
        if len(kept) == 2:
            raise KeyboardInterrupt
        kept.append(file.path)
        keep(staging, target, file)

    monkeypatch.setattr(download, "_keep", killed)
    _fetch(site, folder)
    said = _run("verify", folder)
    assert said.exit_code == 1
    assert "interrupted" in said.output
    monkeypatch.setattr(download, "_keep", keep)
    assert _fetch(site, folder).exit_code == 0
    assert _run("verify", folder).exit_code == 0


def test_what_no_archive_offers_is_named(
    site: Path, lists: list[PackageList], tmp_path: Path
) -> None:
    lists.append(PackageList("driver", ("jq|nothing",), "580"))
    lists.append(PackageList("broken", ("absent",)))
    said = _fetch(site, tmp_path / "bundle")
    assert said.exit_code == 3
    assert "not in the bundle: package jq|nothing 580: no archive offers it" in said.output
    assert "not in the bundle: package absent: no archive offers it for debian-12" in said.output


def test_a_release_is_chosen_by_its_version(
    site: Path, lists: list[PackageList], archive: Archive, tmp_path: Path
) -> None:
    for version in ("3:580.95-1", "3:580.105-1", "3:590.1-1"):
        archive.add("nvidia-smi", version, {"Depends": f"libcuda1 (= {version})"})
        archive.add("libcuda1", version)
    archive.publish()
    lists[:] = [PackageList("driver", ("nvidia-none|nvidia-smi",), "580", needs.DRIVER_NAMES)]
    assert _fetch(site, tmp_path / "bundle").exit_code == 0
    files = json.loads((tmp_path / "bundle" / NAME).read_text())["files"]
    found = {f["name"]: f["version"] for f in files if f["kind"] == "package"}
    assert found == {"nvidia-smi": "3:580.105-1", "libcuda1": "3:580.105-1"}


def test_a_folder_of_something_else_is_not_used(
    site: Path, lists: Sequence[PackageList], tmp_path: Path
) -> None:
    (tmp_path / "usb").mkdir()
    (tmp_path / "usb/photo.jpg").touch()
    said = _fetch(site, tmp_path / "usb")
    assert said.exit_code == 2
    assert "contains other files, such as photo.jpg" in said.output
    assert [p.name for p in (tmp_path / "usb").iterdir()] == ["photo.jpg"]


def test_unknown_systems_are_asked_for(site: Path, lists: Sequence[PackageList]) -> None:
    said = _run("plan", "--site", site)
    assert said.exit_code == 2
    assert "the systems of the hosts are not known here" in said.output
    assert _run("plan", "--site", site, "--os", "rhel-9").exit_code == 2


def test_packages_are_those_of_the_sites_stages(site: Path) -> None:
    found = {n for one in needs.system_lists(load_site(site), "debian-12") for n in one.names}
    assert {"chrony", "slurmctld", "mariadb-server", "prometheus", "?priority(required)"} <= found
    assert not {"kubeadm", "containerd", "tmux"} & found
    text = SITE.replace("slurm: {cluster: tiny}\n", 'kubernetes: {version: "1.35"}\n')
    text = text.replace("secrets: {", "secrets: {kubernetes_encryption_key: {env: A}, ")
    (site / "site.yml").write_text(f"{text}base: {{tools: [everyday]}}\n")
    found = {n for one in needs.system_lists(load_site(site), "debian-12") for n in one.names}
    assert "tmux" in found
    assert "slurmctld" not in found


def test_a_cluster_needs_repositories_helm_charts_and_images(site: Path) -> None:
    text = SITE.replace("secrets: {", "secrets: {kubernetes_encryption_key: {env: A}, ")
    (site / "site.yml").write_text(text + 'kubernetes: {version: "1.35"}\n')
    loaded = load_site(site)
    places = {p.place: p for p in needs.publishers(loaded, "debian-12")}
    assert set(places) == {"nvidia-debian-12", "docker-debian", "kubernetes/v1.35/deb"}
    assert places["docker-debian"].suite == "bookworm"
    assert len(places["kubernetes/v1.35/deb"].fingerprint) == 40
    lists = {one.label: one for one in needs.system_lists(loaded, "debian-12")}
    assert lists["kubernetes release"].release == "1.35"
    assert lists["containerd release"].names == ("containerd.io",)
    assert next(p.path for p in needs.programs(loaded.site)).startswith("helm/helm-")
    kinds = {one.kind for one in needs.lacking(loaded)}
    assert kinds == {"chart", "image"}
