"""Deployed site, as several test modules use it."""

from collections.abc import Mapping

from appliance.engine.look.fact_history import store_facts
from appliance.engine.look.gather import Round
from appliance.engine.look.shared_baseline import record_accepted
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.models.run import StageOutcome, StageState
from tests.support.engine_fakes import receipt_of


def deployed(session: Session, said: Mapping[str, HostFacts]) -> None:
    store_facts(session, Round(said, {}))
    done = [StageOutcome(stage="slurm", host=h, state=StageState.DONE) for h in said]
    receipts = {"receipts": {"slurm": receipt_of("slurm", "f")}}
    record_accepted(session, {h: f.model_copy(update=receipts) for h, f in said.items()}, done)
