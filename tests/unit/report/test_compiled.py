"""Templates are compiled once, and whatever is kept of that, a page is what its template says now."""

from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader

from appliance.report.html import compiled
from appliance.report.html.compiled import Compiled


@pytest.fixture(autouse=True)
def _python_keeps_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)


def _page(folder: Path, *, autoescape: bool = True) -> str:
    env = Environment(loader=FileSystemLoader(folder), autoescape=autoescape)
    env.bytecode_cache = Compiled(folder, env)
    return env.get_template("page").render(name="<b>")


def _kept(folder: Path) -> list[Path]:
    return list((folder / "__pycache__").iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "page").write_text("Hello {{ name }}")
    return tmp_path


def test_what_is_kept_is_not_compiled_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _page(folder) == "Hello &lt;b&gt;"
    assert len(_kept(folder)) == 1
    monkeypatch.setattr(Environment, "compile", lambda *_: pytest.fail("compiled again"))
    assert _page(folder) == "Hello &lt;b&gt;"


def test_a_changed_template_is_compiled_anew(folder: Path) -> None:
    _page(folder)
    (folder / "page").write_text("Bye {{ name }}")
    assert _page(folder) == "Bye &lt;b&gt;"
    assert len(_kept(folder)) == 1


def test_another_option_is_compiled_anew(folder: Path) -> None:
    _page(folder)
    assert _page(folder, autoescape=False) == "Hello <b>"


def test_another_version_compiles_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _page(folder)
    monkeypatch.setattr(compiled, "__version__", "0")
    before = _kept(folder)[0].read_bytes()
    _page(folder)
    assert _kept(folder)[0].read_bytes() != before


@pytest.mark.parametrize("cut", [0, 1, 20, 60, -1])
def test_a_damaged_file_is_made_anew(folder: Path, cut: int) -> None:
    _page(folder)
    (file,) = _kept(folder)
    whole = file.read_bytes()
    file.write_bytes(whole[:cut])
    assert _page(folder) == "Hello &lt;b&gt;"
    assert file.read_bytes() == whole


def test_a_place_that_cannot_be_written_costs_nothing_but_time(folder: Path) -> None:
    (folder / "__pycache__").write_text("no folder")
    assert _page(folder) == "Hello &lt;b&gt;"


def test_nothing_is_kept_where_python_keeps_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    assert _page(folder) == "Hello &lt;b&gt;"
    assert not (folder / "__pycache__").exists()
