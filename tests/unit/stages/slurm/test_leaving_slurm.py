"""Slurm stays on its hosts while its controller knows of jobs there."""

import pytest

from appliance.stages.slurm.stage import STAGE
from tests.support.facts import facts_of
from tests.support.sites import site_of

SITE = site_of("head", "gpu-1", "gpu-2")


@pytest.mark.parametrize(
    ("state", "stays"),
    [
        ("ALLOCATED", True),
        ("MIXED+DRAIN", True),
        ("COMPLETING", True),
        ("IDLE", False),
        ("DOWN", False),
    ],
)
def test_jobs_that_run_or_end_keep_it(state: str, stays: bool) -> None:
    nodes = [{"name": "gpu-1", "state": state}, {"name": "gpu-2", "state": "IDLE"}]
    facts = {"head": facts_of("head", slurm={"controller": "up", "nodes": nodes})}
    why = "jobs run on gpu-1: let them end, or scancel them"
    assert STAGE.kept_by(SITE, facts) == (why if stays else "")


def test_a_controller_that_does_not_tell_leaves_it_to_the_hosts_themselves() -> None:
    assert STAGE.kept_by(SITE, {}) == ""
    assert STAGE.removable


@pytest.mark.parametrize(
    ("known", "is_blocked"), [("appliance", False), ("", False), ("oslo", True), ("$(x)", False)]
)
def test_another_name_of_the_cluster_is_blocked_with_the_way(known: str, is_blocked: bool) -> None:
    """Field case 15."""
    facts = {"head": facts_of("head", slurm={"controller": "up", "cluster": known})}
    why = STAGE.blocked_by(SITE, SITE.hosts[1], facts)
    assert bool(why) is is_blocked
    if is_blocked:
        assert 'slurm.cluster is "appliance", but slurmctld has the state of "oslo"' in why
        assert "rm /var/lib/slurm/slurmctld/clustername" in why
