"""Which hosts and stages a run is about, by the flags that narrow it."""

import pytest

from appliance.engine.plan.selection import Filters, Selection, select
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.stages.catalog import STAGES
from tests.support.engine_fakes import receipt_of
from tests.support.engine_session import hosts, recorder, session
from tests.support.facts import facts_of

__all__ = ["hosts", "recorder", "session"]

MIG = next(stage for stage in STAGES if stage.name == "mig")


def chosen(session: Session, **flags: object) -> Selection:
    return select(session.site, Filters(**flags))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("flags", "has_base", "has_slurm", "cluster", "is_whole"),
    [
        ({}, True, True, ("validate",), True),
        ({"full": True}, True, True, ("validate",), True),
        ({"until": "validate"}, True, True, ("validate",), True),
        ({"until": "slurm"}, True, True, (), False),
        ({"until": "queues"}, True, True, (), False),
        ({"until": "base"}, True, False, (), False),
        ({"stages": ("slurm",)}, False, True, (), False),
        ({"stages": ("validate",)}, False, False, ("validate",), False),
        # A part of the hosts proves nothing about the cluster, unless a flag names a stage of it.
        ({"limit": ("gpu-1",)}, True, True, (), False),
        ({"limit": ("gpu-1",), "until": "validate"}, True, True, ("validate",), False),
        ({"limit": ("gpu-1",), "stages": ("validate",)}, False, False, ("validate",), False),
    ],
)
def test_flags_choose_stages_of_hosts_and_of_the_cluster_alike(
    session: Session,
    flags: dict[str, object],
    has_base: bool,
    has_slurm: bool,
    cluster: tuple[str, ...],
    is_whole: bool,
) -> None:
    found = chosen(session, **flags)
    names = [stage.name for stage in found.stages]
    assert ("base" in names, "slurm" in names) == (has_base, has_slurm)
    assert tuple(stage.name for stage in found.cluster) == cluster
    assert found.names == (*names, *cluster)
    assert found.is_whole is is_whole


def test_a_stage_that_nobody_knows_and_one_the_site_lacks_are_refused(session: Session) -> None:
    with pytest.raises(ConfigError, match="no stage is called slurmm"):
        chosen(session, until="slurmm")
    with pytest.raises(
        ConfigError, match="--stage queues: stage is not enabled for site acme"
    ) as said:
        chosen(session, stages=("queues",))
    assert said.value.hint.endswith("observe, validate")


@pytest.mark.parametrize(
    ("flags", "departs"),
    [
        ({}, True),
        ({"until": "mig"}, True),
        ({"until": "gpu"}, False),
        ({"stages": ("gpu",)}, False),
        ({"limit": ("gpu-1",)}, True),
        ({"limit": ("gpu-2",)}, False),
    ],
)
def test_a_stage_the_site_no_longer_wants_departs_from_chosen_hosts(
    session: Session, flags: dict[str, object], departs: bool
) -> None:
    assert MIG.removable
    had = {"gpu-1": facts_of("gpu-1", receipts={"mig": receipt_of("mig", "x")})}
    found = chosen(session, **flags).with_departing(session.site, had)
    assert (MIG in found.stages) is departs
    names = [stage.name for stage in STAGES]
    assert [s.name for s in found.stages] == sorted((s.name for s in found.stages), key=names.index)
