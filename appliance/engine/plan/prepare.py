"""Prepares the variables of each stage on each host, and their fingerprint."""

from collections.abc import Mapping
from dataclasses import dataclass

from appliance.engine.look.shared_baseline import shared_facts_of
from appliance.engine.plan.fingerprint import Digests, Inputs, fingerprint, inputs_of
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.models.site import Host
from appliance.stages.context import Shared, Variables
from appliance.stages.stage import Stage


@dataclass(frozen=True, slots=True)
class Prepared:
    """The variables of a stage on one host."""

    variables: Variables
    inputs: Inputs
    fingerprint: str


Preparation = Mapping[tuple[str, str], Prepared]


def prepare(
    session: Session, facts: Mapping[str, HostFacts], stages: tuple[Stage, ...]
) -> Preparation:
    """Return variables and fingerprint of every stage on every host it concerns."""
    made: dict[tuple[str, str], Prepared] = {}
    shared = Shared()
    digests = Digests(session.salt, shared)
    known = shared_facts_of(session, facts)
    contexts = {h.name: session.context(h, facts, shared, known) for h in session.site.hosts}
    for stage in stages:
        same: dict[tuple[str, ...], tuple[Inputs, str]] = {}
        for host in concerned(stage, session, facts):
            variables = stage.variables(contexts[host.name])
            inputs = inputs_of(stage, session.data, variables, digests)
            key = (*inputs, *inputs.values())
            if key not in same:
                same[key] = inputs, fingerprint(inputs)
            made[stage.name, host.name] = Prepared(variables, *same[key])
    return made


def concerned(stage: Stage, session: Session, facts: Mapping[str, HostFacts]) -> tuple[Host, ...]:
    """Return the hosts that get the stage or lose it."""
    site = session.site
    return tuple(
        h
        for h in site.hosts
        if stage.concerns(site, h) or stage.is_removal(site, h, facts.get(h.name))
    )
