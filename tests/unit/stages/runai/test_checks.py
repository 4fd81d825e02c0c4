"""The checks of Run:ai: each trips on its fault, which facts or the stand-in have, and an unknown value is never a pass."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.actions.sites.opening import Target, open_session
from appliance.checks.check import View
from appliance.cli.options import quiet
from appliance.config.load import load_site
from appliance.engine.look import runai_state
from appliance.models.result import CheckResult, Status
from appliance.stages.kubernetes.facts import ReleasePod
from appliance.stages.runai.checks import SILENT_S
from appliance.stages.runai.facts import RunaiAnswer
from appliance.stages.scheduler.facts import HelmRelease, SchedulerFacts
from tests.support.judging import said_by
from tests.support.kubernetes_facts import facts
from tests.support.runai.organisation import Site, organised
from tests.support.runai.site import Authorities, write_site

PLACES = {"runai-backend": "runai-backend", "runai-cluster": "runai"}
DAY_S = 86400.0
GOOD = RunaiAnswer(
    api="ok", state="Connected", version="3.0.20", silent_s=20, certificate_s=90 * DAY_S
)


def release(name: str, **more: Any) -> HelmRelease:
    own = {"name": name, "namespace": PLACES[name], "revision": 1, "status": "deployed"}
    return HelmRelease(**{**own, "chart": name, "version": "3.0.20", **more})


def view(
    folder: Path, answer: RunaiAnswer | None = GOOD, *, known: dict[str, Any] | None = None
) -> View:
    if not (folder / "site.yml").exists():
        write_site(folder, Authorities.fresh())
    loaded = load_site(folder)
    good = {
        "releases": [release(name) for name in PLACES],
        "pods": [ReleasePod(name="p-0", namespace=n, ready=True) for n in PLACES.values()],
        "rdma": {},
        **(known or {}),
    }
    head = next(h.name for h in loaded.site.hosts if "control" in {r.value for r in h.roles})
    seen = {head: facts(head, None, scheduler=SchedulerFacts(**good).model_dump())}
    return View(loaded.profile, loaded.site, seen, runai=answer)


def said(check: str, seen: View) -> list[CheckResult]:
    return said_by(f"runai.{check}", seen)


@pytest.mark.parametrize("check", ["releases", "connected", "certificate"])
def test_a_sound_run_ai_passes(tmp_path: Path, check: str) -> None:
    assert {one.status for one in said(check, view(tmp_path))} == {Status.PASS}


@pytest.mark.parametrize(
    ("known", "cause"),
    [
        ({"releases": [release("runai-backend")]}, "runai-cluster is not installed"),
        (
            {"releases": [release("runai-backend"), release("runai-cluster", status="failed")]},
            "revision 1 of runai-cluster is failed",
        ),
        (
            {"releases": [release("runai-backend", version="2.26.1"), release("runai-cluster")]},
            "runai-backend is 2.26.1, the site's is 3.0.20",
        ),
        (
            {
                "pods": [
                    ReleasePod(name="db-0", namespace="runai-backend", ready=False, reason="claim"),
                    ReleasePod(name="p-0", namespace="runai", ready=True),
                ]
            },
            "not ready: db-0 (claim)",
        ),
    ],
)
def test_a_chart_or_a_pod_that_is_amiss_is_named(
    tmp_path: Path, known: dict[str, Any], cause: str
) -> None:
    bad = [
        one for one in said("releases", view(tmp_path, known=known)) if one.status is Status.FAIL
    ]
    assert [cause in one.cause for one in bad] == [True]
    assert bad[0].fix


@pytest.mark.parametrize(
    ("check", "changed", "status", "cause"),
    [
        ("connected", {"state": "Disconnected"}, Status.FAIL, "Run:ai reports Disconnected"),
        (
            "connected",
            {"state": "MissingPrerequisites", "cause": "prometheus is missing"},
            Status.FAIL,
            "MissingPrerequisites: prometheus is missing",
        ),
        ("connected", {"version": "2.26.1"}, Status.FAIL, "engine is 2.26.1"),
        ("connected", {"silent_s": SILENT_S + 1}, Status.WARN, "last heard from the cluster"),
        ("connected", {"api": "no answer", "fix": "look"}, Status.FAIL, "no answer"),
        ("certificate", {"certificate_s": 20 * DAY_S}, Status.WARN, "it ends in 20 days"),
        ("certificate", {"certificate_s": -3 * DAY_S}, Status.FAIL, "it ended 3 days ago"),
        ("certificate", {"certificate_s": None}, Status.NOT_ASSESSED, "it was not read"),
    ],
)
def test_what_the_control_plane_reports_is_judged(
    tmp_path: Path, check: str, changed: dict[str, Any], status: Status, cause: str
) -> None:
    (found,) = said(check, view(tmp_path, GOOD.model_copy(update=changed)))
    assert found.status is status
    assert cause in found.cause
    assert found.fix or status is Status.NOT_ASSESSED


def test_before_the_first_installation_nothing_is_amiss(tmp_path: Path) -> None:
    (found,) = said("releases", view(tmp_path, known={"releases": [], "pods": []}))
    assert found.status is Status.NOT_ASSESSED
    assert "not installed yet" in found.cause


def test_without_an_account_the_cluster_is_not_assessed(tmp_path: Path) -> None:
    for check in ("connected", "certificate"):
        (found,) = said(check, view(tmp_path, None))
        assert found.status is Status.NOT_ASSESSED


def test_a_site_without_run_ai_has_no_result(tmp_path: Path) -> None:
    found = view(tmp_path)
    other = replace(found, site=found.site.model_copy(update={"scheduler": None}))
    assert [said(check, other) for check in ("releases", "connected", "certificate")] == [[]] * 3


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with organised(tmp_path) as made:
        yield made


def asked(site: Site) -> RunaiAnswer:
    """What this machine reads, as health does."""
    with open_session(Target(site.folder), "health", quiet()) as session:
        assert runai_state.is_known(session)
        return runai_state.ask(session)


def test_the_stand_in_is_read(site: Site) -> None:
    found = asked(site)
    assert (found.api, found.state, found.version) == ("ok", "Connected", "3.0.20")
    assert found.silent_s is not None
    assert found.silent_s < 60
    assert found.certificate_s is not None
    assert DAY_S < found.certificate_s <= 2 * DAY_S


def _without(site: Site) -> None:
    site.stand_in.world.tables["clusters"].clear()


def _missing(site: Site) -> None:
    (own,) = site.stand_in.world.tables["clusters"]
    site.stand_in.world.missing[own] = {"prometheus": "not found"}


def _silent(site: Site) -> None:
    for own in site.stand_in.world.heartbeats:
        site.stand_in.world.heartbeats[own] -= 400


def _unknown_form(site: Site) -> None:
    for stored in site.stand_in.world.tables["clusters"].values():
        del stored.body["uuid"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_without, "has no cluster rack"),
        (_missing, "prometheus is missing (not found)"),
        (_silent, "Disconnected"),
        (_unknown_form, "answers in an unknown form"),
        (lambda site: site.stand_in.plant("status", status=503, times=99), "HTTP 503"),
        (
            lambda site: (site.folder / "secrets/runai_client_secret").write_text("wrong"),
            "does not accept the service account",
        ),
    ],
)
def test_a_fault_of_the_control_plane_is_read_with_its_cause(
    site: Site, spoil: Callable[[Site], object], words: str
) -> None:
    spoil(site)
    found = asked(site)
    assert words in f"{found.api} {found.state} {found.cause}"
    assert found.api == "ok" or found.fix
