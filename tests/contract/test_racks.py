"""Modules that work on the deployed rack share one: each that does not would raise and deploy another. The quick tests raise none."""

import tomllib
from pathlib import Path

from tests.conftest import SHARED_RACK

MODULES = sorted(Path(__file__).parents[1].glob("integration/test_*.py"))
ALONE = {"test_audit", "test_changed_as_documented", "test_clustermax"}
"""Of a target of its own."""


def test_who_works_on_the_deployed_rack_shares_it() -> None:
    found = {m.stem for m in MODULES if "deployed: Deployed" in m.read_text(encoding="utf-8")}
    assert found - ALONE == set(SHARED_RACK)


def test_the_quick_tests_are_of_no_mark() -> None:
    """One that is forgotten would have `make check` raise its rack."""
    project = Path(__file__).parents[2] / "pyproject.toml"
    options = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    for mark in options["markers"]:
        assert f"not {mark.partition(':')[0]}" in options["addopts"]
