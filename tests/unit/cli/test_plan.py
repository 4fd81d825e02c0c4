"""appliance plan: the command that it ends with does what was shown, and no more."""

import pytest
from click.testing import CliRunner

from appliance.actions.deployment import plan as action
from appliance.cli.main import cli
from appliance.models.plan import Action, HostStage, Plan

CELL = HostStage(stage="base", host="gpu-1", action=Action.RUN)
PLAN = Plan(site="s", profile="hpc", hosts=("gpu-1",), stages=("base",), cells=(CELL,))


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ((), "appliance deploy"),
        (("--hosts", "gpu-1", "--until", "base"), "appliance deploy --hosts gpu-1 --until base"),
        (("--hosts", "gpu-[1-2]"), "appliance deploy --hosts 'gpu-[1-2]'"),
        (("--stage", "base", "--full"), "appliance deploy --stage base --full"),
    ],
)
def test_what_applies_a_plan_is_kept_to_the_same_part(
    flags: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(action, "make", lambda *_: PLAN)
    done = CliRunner().invoke(cli, ["plan", *flags])
    assert done.output.splitlines()[-1] == f"  Nothing was changed. To apply: {told}"
