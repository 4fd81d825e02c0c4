"""The pages build as a site without a dead link, and the site asks nobody else's server."""

import os
import re
import shutil
import subprocess  # noqa: TID251 - the builder of the site
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?((?:https?:)?//[^"'> ]+)"""
    r"""|<link\b[^>]*\bhref=["']?((?:https?:)?//[^"'> ]+)"""
    r"""|(?:url\(|@import )["']?((?:https?:)?//[^"') ]+)"""
)
"""What a browser fetches by itself; links that people follow are none of it."""


def build(checkout: Path, out: Path) -> "subprocess.CompletedProcess[str]":
    # Told to be quiet, it counts no warning, and --strict means nothing.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=120
    )


def fetched(page: str) -> list[str]:
    """Addresses on other servers that a page loads."""
    return ["".join(found) for found in LOADED.findall(page)]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources of the site, free to be changed."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    return tmp_path


def test_the_site_builds_and_fetches_nothing_from_elsewhere(tmp_path: Path) -> None:
    built = build(ROOT, tmp_path)
    assert built.returncode == 0, built.stderr
    files = [*tmp_path.rglob("*.html"), *tmp_path.rglob("*.css")]
    assert len(files) > len(list(ROOT.glob("docs/*.md")))
    wrong = {str(file): found for file in files if (found := fetched(file.read_text()))}
    assert wrong == {}


def test_dead_links_and_a_page_in_no_menu_end_the_build(copy: Path) -> None:
    with (copy / "docs/index.md").open("a") as page:
        page.write("\n[gone](no-such-page.md) [gone](checks.md#gpu.no-such)\n")
    (copy / "docs/forgotten.md").write_text("# Forgotten\n")
    built = build(copy, copy / "out")
    assert built.returncode != 0
    said = [line for line in built.stderr.splitlines() if "WARNING" in line]
    for wrong in ("no-such-page.md", "#gpu.no-such", "nav"):
        assert [line for line in said if wrong in line], built.stderr
    assert "- forgotten.md" in built.stderr


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://unpkg.com/x.js">',
        "<link rel=stylesheet href=https://fonts.example/css>",
        '<img alt="" src="//cdn.example/a.png">',
        "<style>a{background:url(https://cdn.example/a.png)}</style>",
    ],
)
def test_what_a_page_fetches_is_found(page: str) -> None:
    assert len(fetched(page)) == 1
    assert fetched('<a href="https://example.org">read</a><script src="assets/a.js">') == []
