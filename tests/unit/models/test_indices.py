"""What a model looks up by name follows its values, in copies too, and is no part of them."""

import pytest

from appliance.models.plan import Action, HostStage, Plan
from appliance.models.site import Role, Site

SITE = Site.model_validate(
    {
        "version": 1,
        "name": "acme",
        "networks": {"management": {"cidr": "10.1.0.0/24"}},
        "hosts": [
            {"name": "head", "roles": ["control", "login"], "address": "10.1.0.10"},
            {"name": "gpu-2", "roles": ["gpu"], "address": "10.1.0.12"},
            {"name": "gpu-1", "roles": ["gpu"], "address": "10.1.0.11"},
        ],
    }
)


def names(site: Site, role: Role) -> list[str]:
    return [host.name for host in site.with_role(role)]


def test_hosts_are_found_by_role_in_the_sites_order_and_by_name() -> None:
    assert names(SITE, Role.GPU) == ["gpu-2", "gpu-1"]
    assert names(SITE, Role.STORAGE) == []
    assert str(SITE.host("gpu-1").address) == "10.1.0.11"
    with pytest.raises(KeyError):
        SITE.host("gpu-3")


def test_a_copy_with_other_hosts_knows_its_own() -> None:
    assert names(SITE, Role.GPU) == ["gpu-2", "gpu-1"]
    fewer = SITE.model_copy(update={"hosts": SITE.hosts[:2]})
    assert (names(fewer, Role.GPU), names(SITE, Role.GPU)) == (["gpu-2"], ["gpu-2", "gpu-1"])
    with pytest.raises(KeyError):
        fewer.host("gpu-1")


def test_what_was_looked_up_is_no_part_of_the_model() -> None:
    fresh = Site.model_validate(SITE.model_dump())
    SITE.host("head")
    SITE.with_role(Role.GPU)
    assert (fresh, repr(fresh)) == (SITE, repr(SITE))
    assert fresh.model_dump() == SITE.model_dump()
    assert fresh.model_dump_json() == SITE.model_dump_json()
    assert dict(fresh) == {k: v for k, v in SITE if k in Site.model_fields}


def cell(stage: str, host: str, action: Action = Action.RUN) -> HostStage:
    return HostStage(stage=stage, host=host, action=action)


def test_cells_are_found_by_stage_and_host_in_the_plans_order() -> None:
    cells = (cell("b", "y"), cell("b", "x"), cell("a", "y", Action.SKIP), cell("a", "x"))
    plan = Plan(site="s", profile="p", hosts=("x", "y"), stages=("a", "b"), cells=cells)
    assert [c.host for c in plan.by_stage("b")] == ["x", "y"]
    assert [c.stage for c in plan.by_host("y")] == ["a", "b"]
    assert plan.cell("a", "y") is cells[2]
    assert (plan.cell("a", "z"), plan.cell("c", "x")) == (None, None)
    assert (plan.by_stage("c"), plan.by_host("z")) == ((), ())
    assert [(c.stage, c.host) for c in plan.pending()] == [("a", "x"), ("b", "x"), ("b", "y")]
    shorter = plan.model_copy(update={"cells": cells[:1]})
    assert [c.host for c in shorter.by_stage("b")] == ["y"]
    assert shorter.cell("a", "y") is None
