"""Modules that work on the deployed rack share one: each that does not would raise and deploy another."""

from pathlib import Path

from tests.conftest import SHARED_RACK

MODULES = sorted(Path(__file__).parents[1].glob("integration/test_*.py"))
ALONE = {"test_audit"}
"""Of a target of its own."""


def test_who_works_on_the_deployed_rack_shares_it() -> None:
    found = {m.stem for m in MODULES if "deployed: Deployed" in m.read_text(encoding="utf-8")}
    assert found - ALONE == set(SHARED_RACK)
