"""Containers in Slurm jobs: what a site must say, and what its files must be, before a host is contacted."""

import hashlib
import io
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml  # noqa: TID251 - writes a site

from appliance.config.data import root
from appliance.config.finding import Finding, InvalidConfig
from appliance.config.load import load_site
from appliance.models.site import Site
from appliance.stages.slurm.variables.containers import container_folder, containers
from tests.support.sites import site_of

PACKAGE = b"a package"


def archive(top: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as made:
        made.addfile(tarfile.TarInfo(f"{top}/Makefile"))
    return packed.getvalue()


def site(folder: Path, source: bytes | None, **differs: Any) -> dict[str, Any]:
    """A site's folder with both files; the text of its site.yml."""
    shutil.copytree(root() / "inventories/example", folder, dirs_exist_ok=True)
    (folder / "enroot.deb").write_bytes(PACKAGE)
    if source is not None:
        (folder / "pyxis.tar.gz").write_bytes(source)
    text: dict[str, Any] = yaml.safe_load((folder / "site.yml").read_text())
    section = {
        "enroot": [{"file": "enroot.deb", "sha256": hashlib.sha256(PACKAGE).hexdigest()}],
        "pyxis": {"file": "pyxis.tar.gz", "sha256": hashlib.sha256(source or b"").hexdigest()},
        **differs.pop("section", {}),
    }
    text["slurm"] = {**text.get("slurm", {}), "containers": section}
    text["software"] = {"pyxis": "0.24", "enroot": "4.1"}
    return {**text, **differs}


def findings(folder: Path, text: dict[str, Any]) -> list[Finding]:
    (folder / "site.yml").write_text(yaml.safe_dump(text))
    try:
        load_site(folder)
    except InvalidConfig as error:
        return [f for f in error.findings if f.key.startswith(("slurm.containers", "software"))]
    return []


def test_files_that_are_what_they_are_said_to_be_are_accepted(tmp_path: Path) -> None:
    assert findings(tmp_path, site(tmp_path, archive("pyxis-0.24.0"))) == []


def test_an_archive_that_tells_no_release_is_accepted(tmp_path: Path) -> None:
    assert findings(tmp_path, site(tmp_path, archive("nightly"))) == []


@pytest.mark.parametrize(
    ("source", "differs", "told"),
    [
        (None, {}, "pyxis.tar.gz cannot be read"),
        (archive("pyxis-0.20.0"), {}, "pyxis.tar.gz contains pyxis 0.20.0, but 0.24 is set"),
        (b"no archive", {}, "is not a readable archive"),
        (
            archive("pyxis-0.24.0"),
            {"section": {"enroot": [{"file": "enroot.deb", "sha256": "0" * 64}]}},
            "enroot.deb has the digest",
        ),
        (archive("pyxis-0.24.0"), {"software": {"enroot": "4.1"}}, "needs a release of pyxis"),
        (archive("pyxis-0.24.0"), {"software": {"pyxis": "0.24"}}, "needs a release of enroot"),
    ],
)
def test_what_would_not_work_is_refused_with_one_line(
    tmp_path: Path, source: bytes | None, differs: dict[str, Any], told: str
) -> None:
    (found,) = findings(tmp_path, site(tmp_path, source, **differs))
    assert told in found.message
    assert found.remedy


def test_a_release_without_files_is_refused(tmp_path: Path) -> None:
    text = site(tmp_path, archive("pyxis-0.24.0"))
    del text["slurm"]["containers"]
    found = findings(tmp_path, text)
    assert {f.message for f in found} == {"is set, but slurm.containers is not"}
    assert len(found) == 2


def of(**given: Any) -> Site:
    pinned = {"sha256": "a" * 64}
    section = {
        "enroot": [{"file": "e.deb", **pinned}],
        "pyxis": {"file": "p.tgz", **pinned},
        **given.pop("section", {}),
    }
    return site_of("head", **{"slurm": {"containers": section}, **given})


@pytest.mark.parametrize(
    ("given", "folder"),
    [
        ({}, "/scratch/enroot"),
        ({"storage": {"scratch": {"at": "/local"}}}, "/local/enroot"),
        ({"storage": {"scratch": None}}, "/var/lib/enroot"),
        ({"section": {"at": "/images"}}, "/images"),
        ({"slurm": {}}, ""),
    ],
)
def test_images_lie_on_the_scratch_unless_the_site_says_otherwise(
    given: dict[str, Any], folder: str
) -> None:
    assert container_folder(of(**given)) == folder


def test_the_role_is_given_files_and_digests_and_no_place_of_this_machine() -> None:
    assert containers(of(slurm={})) == {}
    assert containers(of()) == {
        "at": "/scratch/enroot",
        "enroot": [{"file": "e.deb", "sha256": "a" * 64}],
        "pyxis": {"file": "p.tgz", "sha256": "a" * 64},
    }
