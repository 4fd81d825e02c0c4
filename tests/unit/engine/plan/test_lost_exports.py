"""A deployment does not create an empty folder in the place of users' data."""

from types import SimpleNamespace
from typing import Any

import pytest

from appliance.checks.check import View
from appliance.engine.look.gather import Round
from appliance.engine.plan import lost_exports
from appliance.errors import ApplianceError
from appliance.models.facts import Drift
from tests.support.engine_fakes import receipt_of
from tests.support.facts import facts_of
from tests.support.profiles import profile_of
from tests.support.sites import site_of

EXPORT = {"exports": [{"path": "/srv/data"}], "mounts": [{"export": "/srv/data", "at": "/data"}]}


def refuse(monkeypatch: pytest.MonkeyPatch, found: str, stage: str) -> None:
    drift = Drift(kind="directory", name="/srv/data", expected="present", found=found)
    receipt = receipt_of("storage", "f").model_copy(update={"drift": (drift,)})
    site = site_of("head", "nas1", storage=EXPORT)
    seen = Round({"nas1": facts_of("nas1", receipts={"storage": receipt})}, {})
    monkeypatch.setattr(lost_exports, "view_of", lambda *_: View(profile_of(), site, seen.facts))
    session: Any = SimpleNamespace(site=site)
    cell = SimpleNamespace(stage=stage, host="nas1")
    plan: Any = SimpleNamespace(pending=lambda: [cell])
    lost_exports.refuse_lost_exports(session, seen, plan)


def test_a_folder_that_is_gone_ends_the_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ApplianceError, match="/srv/data of nas1 no longer exists") as caught:
        refuse(monkeypatch, "missing", "storage")
    assert "mkdir -p /srv/data" in caught.value.hint


def test_another_stage_or_a_folder_that_is_there_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "missing", "base")
    refuse(monkeypatch, "mode 0700", "storage")
