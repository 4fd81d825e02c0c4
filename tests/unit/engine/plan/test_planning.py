"""A plan says for every stage and host whether it would run, and why."""

from dataclasses import replace
from pathlib import Path

from appliance.adapters.process import run
from appliance.config.secrets import MAIL_PASSWORD, Secret
from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.look.owned_places import owned_places
from appliance.engine.look.probe_requests import request_for
from appliance.engine.plan.planning import make_plan
from appliance.engine.plan.prepare import prepare
from appliance.engine.plan.selection import Selection
from appliance.engine.session import Session
from appliance.models.facts import Foreign, HostFacts
from appliance.models.plan import Action, HostStage
from appliance.models.site import Host, Role
from appliance.stages.base import checks as base
from appliance.stages.base.site import BaseOptions
from appliance.stages.context import Variables
from appliance.stages.kubernetes.checks.ground import CHECKS
from appliance.stages.stage import Stage
from tests.support.engine_fakes import receipt_of, stage_of
from tests.support.facts import facts_of

HOSTS = ("head", "gpu-1", "gpu-2")


def cells(
    session: Session, found: Round, stage: Stage | None = None, **selection: object
) -> dict[str, HostStage]:
    stages = (stage or stage_of("one"),)
    prepared = prepare(session, found.facts, stages)
    plan = make_plan(session, found, prepared, Selection(stages=stages, **selection))  # type: ignore[arg-type]
    return {c.host: c for c in plan.cells}


def finished(session: Session, **receipt: object) -> dict[str, HostFacts]:
    """Facts of hosts on which stage one is finished with today's inputs."""
    prepared = prepare(session, {}, (stage_of("one"),))
    return {
        h: facts_of(
            h, receipts={"one": receipt_of("one", prepared["one", h].fingerprint, **receipt)}
        )
        for h in HOSTS
    }


def test_host_without_receipt_runs(session: Session) -> None:
    plan = cells(session, Round({h: facts_of(h) for h in HOSTS}, {}))
    assert {c.action for c in plan.values()} == {Action.RUN}
    assert plan["gpu-1"].why == "not done yet"


def test_a_host_that_does_not_say_what_was_done_is_not_called_new(session: Session) -> None:
    mute = facts_of("gpu-1", errors={"receipts": "no answer within 20 s"})
    plan = cells(session, Round({h: facts_of(h) for h in HOSTS} | {"gpu-1": mute}, {}))
    assert plan["gpu-1"].why == "unknown whether it is finished: no answer within 20 s"


def test_last_failure_is_the_reason_to_run_again(session: Session) -> None:
    session.journal.append("r0", "host_failed", stage="one", host="gpu-1", cause="disk full")
    plan = cells(session, Round({h: facts_of(h) for h in HOSTS}, {}))
    assert plan["gpu-1"].why == "failed last time: disk full"


def test_finished_host_is_left_alone(session: Session) -> None:
    plan = cells(session, Round(finished(session), {}))
    assert {c.action for c in plan.values()} == {Action.SKIP}


def test_full_runs_what_is_finished(session: Session) -> None:
    plan = cells(session, Round(finished(session), {}), full=True)
    assert {c.action for c in plan.values()} == {Action.RUN}


def test_changed_input_is_named(session: Session) -> None:
    facts = finished(session)
    old = receipt_of("one", "other", inputs={"x_name": "before", "playbook": "gone"})
    facts["gpu-2"] = facts_of("gpu-2", receipts={"one": old})
    plan = cells(session, Round(facts, {}))
    assert plan["gpu-2"].action is Action.RUN
    assert "x_name" in plan["gpu-2"].why
    assert plan["gpu-1"].action is Action.SKIP


def test_drift_is_repaired_only_where_it_is_and_packages_are_pinned(session: Session) -> None:
    facts = finished(session)
    fingerprint = facts["gpu-1"].receipts["one"].fingerprint
    drift = [
        {"kind": "file", "name": "/etc/x", "expected": "mode 0644", "found": "mode 0600"},
        {"kind": "package", "name": "chrony", "expected": "4.3-2", "found": "removed"},
    ]
    facts["gpu-1"] = facts_of(
        "gpu-1", receipts={"one": receipt_of("one", fingerprint, drift=drift)}
    )
    plan = cells(session, Round(facts, {}))
    assert plan["gpu-1"].action is Action.REPAIR
    assert "/etc/x (mode 0644 → mode 0600)" in plan["gpu-1"].why
    assert plan["gpu-1"].pins == {"chrony": "4.3-2"}
    assert plan["gpu-2"].action is Action.SKIP


def test_silent_host_is_unknown_never_fine(session: Session) -> None:
    facts = finished(session)
    del facts["gpu-2"]
    plan = cells(
        session, Round(facts, {"gpu-2": Unanswered("gpu-2", "powered off", "power it on")})
    )
    assert plan["gpu-2"].action is Action.UNKNOWN
    assert plan["gpu-2"].why == "powered off"


def test_limit_leaves_other_hosts_out(session: Session) -> None:
    plan = cells(session, Round(finished(session), {}), hosts=frozenset({"gpu-1"}))
    assert list(plan) == ["gpu-1"]


def test_secret_changes_the_fingerprint_but_is_not_in_it(session: Session) -> None:
    stage = stage_of("one")
    before = prepare(session, {}, (stage,))["one", "head"]
    assert all("s3cret" not in text for text in before.inputs.values())
    assert session.salt != replace(session, secrets={}).salt


def test_a_new_password_of_a_controller_or_address_of_a_receiver_changes_no_digest_but_its_own(
    session: Session,
) -> None:
    beside = {
        "bmc.head": Secret("new"),
        "receiver.oncall": Secret("new"),
        MAIL_PASSWORD: Secret("new"),
    }
    assert replace(session, secrets={**session.secrets, **beside}).salt == session.salt


def test_stage_the_site_does_not_want_concerns_nobody(session: Session) -> None:
    unwanted = stage_of("one", wanted=lambda site: bool(site.simulated))
    found = Round({h: facts_of(h) for h in HOSTS}, {})
    assert prepare(session, found.facts, (unwanted,)) == {}
    plan = cells(session, found, unwanted)
    assert {c.action for c in plan.values()} == {Action.NOT_CONCERNED}


def test_host_that_would_reboot_is_named(session: Session) -> None:
    def is_old(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
        return facts is not None and facts.os.kernel == "5.15" and variables["x_name"] == host.name

    stage = stage_of("one", reboots=is_old)
    facts = {h: facts_of(h) for h in HOSTS}
    old = facts["gpu-2"].os.model_copy(update={"kernel": "5.15"})
    facts["gpu-2"] = facts_of("gpu-2", os=old)
    plan = cells(session, Round(facts, {}), stage)
    assert [host for host, cell in plan.items() if cell.reboot] == ["gpu-2"]


def test_finished_host_does_not_reboot(session: Session) -> None:
    stage = stage_of("one", reboots=lambda *_: True)
    plan = cells(session, Round(finished(session), {}), stage)
    assert not any(c.reboot for c in plan.values())


def test_stage_that_learns_from_one_that_will_run_is_announced_as_open(session: Session) -> None:
    stages = (stage_of("two"), stage_of("one", facts_from=("two",)))
    facts = finished(session)
    prepared = prepare(session, facts, stages)
    plan = make_plan(session, Round(facts, {}), prepared, Selection(stages=stages))
    assert {(c.action, c.why) for c in plan.by_stage("one")} == {
        (Action.SKIP, "checked again after two")
    }
    alone = cells(session, Round(facts, {}), stages[1])
    assert {(c.action, c.why) for c in alone.values()} == {(Action.SKIP, "")}


def test_a_stage_taken_out_of_the_site_runs_once_more_where_it_was(session: Session) -> None:
    stage = stage_of("one", wanted=lambda site: False, removable=True)
    facts = {h: facts_of(h) for h in HOSTS}
    facts["gpu-1"] = facts_of("gpu-1", receipts={"one": receipt_of("one", "any")})
    plan = cells(session, Round(facts, {}), stage)
    assert plan["gpu-1"].action is Action.RUN
    assert "no longer enabled in the site" in plan["gpu-1"].why
    assert {plan[h].action for h in ("head", "gpu-2")} == {Action.NOT_CONCERNED}
    staying = stage_of("one", wanted=lambda site: False)
    assert cells(session, Round(facts, {}), staying)["gpu-1"].action is Action.NOT_CONCERNED


def test_a_stage_in_use_is_not_taken_away_from_any_host(session: Session) -> None:
    stage = stage_of(
        "one",
        wanted=lambda site: False,
        removable=True,
        kept_by=lambda site, facts: f"jobs run on {max(facts)}",
    )
    had = {"one": receipt_of("one", "any")}
    plan = cells(session, Round({h: facts_of(h, receipts=had) for h in HOSTS}, {}), stage)
    assert {c.action for c in plan.values()} == {Action.BLOCKED}
    assert {c.why for c in plan.values()} == {"jobs run on head"}


def test_what_a_repair_restores_is_known_to_who_judges_reboots(session: Session) -> None:
    def driver_moves(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
        return variables["appliance_repair_pins"] == {"nvidia-driver": "1-1"}

    facts = finished(
        session,
        drift=({"kind": "package", "name": "nvidia-driver", "expected": "1-1", "found": "2-1"},),
    )
    plan = cells(session, Round(facts, {}), stage_of("one", reboots=driver_moves))
    assert all(cell.reboot for cell in plan.values())


GROUND = {"ours": False, "swaps": {}, "modules": {"overlay": "loaded"}}
FIT = {"ground": GROUND, "os": {"container": "nspawn"}}
TAKEN = {**FIT, "ground": {**GROUND, "listeners": {"10250": "k3s"}}}
PICKY = stage_of("one", judges=CHECKS, rolls_first=frozenset({Role.CONTROL}))


def test_a_host_that_lacks_what_a_stage_needs_is_blocked_with_the_reason(session: Session) -> None:
    found = {h: facts_of(h, **FIT) for h in HOSTS} | {"gpu-1": facts_of("gpu-1", **TAKEN)}
    plan = cells(session, Round(found, {}), PICKY)
    assert plan["gpu-1"].action is Action.BLOCKED
    assert "port 10250 is used by k3s, but kubelet needs it: ss -lntp" in plan["gpu-1"].why
    assert {plan[h].action for h in ("head", "gpu-2")} == {Action.RUN}


def test_what_a_stage_needs_and_nobody_measured_blocks_it(session: Session) -> None:
    found = {h: facts_of(h, **FIT) for h in HOSTS} | {"gpu-1": facts_of("gpu-1")}
    plan = cells(session, Round(found, {}), PICKY)
    assert plan["gpu-1"].action is Action.BLOCKED
    assert plan["gpu-1"].why.startswith("not known: ")


def test_all_wait_for_a_host_that_leads_and_is_not_fit(session: Session) -> None:
    found = {h: facts_of(h, **FIT) for h in HOSTS} | {"head": facts_of("head", **TAKEN)}
    plan = cells(session, Round(found, {}), PICKY)
    assert {c.action for c in plan.values()} == {Action.BLOCKED}
    assert plan["gpu-1"].why == "waits for head, which must finish first"


def test_a_host_that_has_the_stage_is_not_asked_for_what_it_needs(session: Session) -> None:
    done = finished(session)
    late = {
        h: f.model_copy(update={"ground": facts_of(h, **TAKEN).ground}) for h, f in done.items()
    }
    plan = cells(session, Round(late, {}), PICKY, full=True)
    assert {c.action for c in plan.values()} == {Action.RUN}


def test_what_a_deployment_moves_away_is_the_plans_to_name(session: Session) -> None:
    stranger = {"kind": "file", "at": "/etc/cron.d/x", "owner": "root", "modified": 1.0}
    purging = session.site.model_copy(
        update={"base": session.site.base.model_copy(update={"purge": True})}
    )
    stage = stage_of("one", judges=tuple(c for c in base.CHECKS if c.id == "base.purge"))
    for site, told in ((purging, ("/etc/cron.d/x",)), (session.site, ())):
        meant = replace(session, site=site)
        facts = finished(meant) | {
            "gpu-1": finished(meant)["gpu-1"].model_copy(
                update={"foreign": (Foreign.model_validate(stranger),)}
            )
        }
        facts = {
            h: f if f.foreign else f.model_copy(update={"foreign": ()}) for h, f in facts.items()
        }
        plan = cells(meant, Round(facts, {}), stage)
        assert (plan["gpu-1"].purge, plan["gpu-2"].purge) == (told, ())
        assert plan["gpu-1"].action is (Action.REPAIR if told else Action.SKIP)
        assert plan["gpu-2"].action is Action.SKIP


def test_places_are_asked_of_hosts_whose_stages_own_them(session: Session) -> None:
    asked = request_for(session, "gpu-1")
    places = asked["owned"]
    assert isinstance(places, dict)
    assert "/etc/sudoers.d/*" in places["base"]
    assert "/etc/slurm/prolog.d/*" in places["slurm"]
    assert asked["keys"] == {}, "an agent holds the key: nobody knows whose may be there"
    assert not any(place for stage in places for place in places[stage] if not place.strip("!=@"))


def test_work_of_users_is_free_but_where_only_their_jobs_bring_them(session: Session) -> None:
    bob = {"name": "bob", "uid": 2001, "keys": [f"ssh-ed25519 {'A' * 68} bob"]}
    base = BaseOptions.model_validate({"users": [bob]})
    meant = replace(session, site=session.site.model_copy(update={"base": base}))
    login, gpu = (owned_places(meant.site, host)["base"] for host in ("head", "gpu-1"))
    assert "@bob" in login
    assert [place for place in gpu if place.startswith("@")] == []
    assert {"/var/spool/cron/crontabs/*", "/var/lib/systemd/linger/*"} <= {*login} & {*gpu}


def test_the_sites_own_key_is_nobody_elses(session: Session, tmp_path: Path) -> None:
    file = tmp_path / "id"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)])
    said = run(["ssh-keygen", "-l", "-f", str(file)]).stdout.split()[1]
    access = session.site.access.model_copy(update={"private_key": "id"})
    meant = replace(
        session, folder=tmp_path, site=session.site.model_copy(update={"access": access})
    )
    assert request_for(meant, "gpu-1")["keys"] == {"/root": [said]}
    ops = access.model_copy(update={"user": "ops"})
    other = replace(meant, site=session.site.model_copy(update={"access": ops}))
    assert request_for(other, "gpu-1")["keys"] == {"/root": []}


def test_a_stage_that_would_fail_or_harm_is_blocked_with_its_reason(session: Session) -> None:
    found = Round({h: facts_of(h) for h in HOSTS}, {})
    against = replace(
        stage_of("one"), blocked_by=lambda _, host, facts: "not now" if host.name in facts and host.name == "gpu-1" else ""
    )  # fmt: skip
    plan = cells(session, found, against)
    assert (plan["gpu-1"].action, plan["gpu-1"].why) == (Action.BLOCKED, "not now")
    assert plan["gpu-2"].action is Action.RUN
    done = Round(finished(session), {})
    assert cells(session, done, against)["gpu-1"].action is Action.SKIP
