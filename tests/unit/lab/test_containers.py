"""The look-alikes of enroot and Pyxis, and the section of a rack's site that brings them."""

import io
import tarfile
from pathlib import Path

from appliance.config import document
from appliance.lab import containers, site
from appliance.lab.spec import RackSpec, numbered
from appliance.models.site import Site

PINNED = {
    "enroot": containers.Pinned("containers/enroot_4.1.2-1_all.deb", "a" * 64),
    "pyxis": containers.Pinned("containers/pyxis-0.24.0.tar.gz", "b" * 64),
}


def test_the_source_is_the_same_bytes_each_time_and_one_folder_of_its_release() -> None:
    assert containers.pyxis() == containers.pyxis()
    with tarfile.open(fileobj=io.BytesIO(containers.pyxis())) as archive:
        names = archive.getnames()
    assert names == [f"pyxis-{containers.PYXIS}/{name}" for name in ("Makefile", "pyxis.c")]


def test_look_alikes_say_that_they_are() -> None:
    package = containers.enroot()
    assert "simulated" in package.summary
    assert all("imulated" in file.content for file in package.files.values())
    with tarfile.open(fileobj=io.BytesIO(containers.pyxis())) as archive:
        texts = [archive.extractfile(member) for member in archive]
        assert all(text is not None and b"Simulated" in text.read() for text in texts)


def test_the_comment_of_a_racks_site_becomes_a_section_the_program_accepts(tmp_path: Path) -> None:
    text = site.render(numbered(RackSpec("test", hosts=3), 2, {}), PINNED)
    before, mark, section = text.partition("# Containers in Slurm jobs")
    assert mark
    assert Site.model_validate(_read(tmp_path, before)).slurm_options.containers is None
    lines = [line.removeprefix("# ") for line in section.splitlines()[1:]]
    found = Site.model_validate(_read(tmp_path, "\n".join((before, *lines))))
    assert found.slurm_options.containers
    assert found.slurm_options.containers.pyxis.file == PINNED["pyxis"].file
    assert set(found.software) == {"enroot", "pyxis"}
    assert "slurm.container_room" in found.limits


def _read(folder: Path, text: str) -> object:
    file = folder / "site.yml"
    file.write_text(text)
    return document.read(file).data
