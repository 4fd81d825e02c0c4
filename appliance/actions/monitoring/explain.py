"""Explains a check, benchmark or promise: its meaning, its limit and the failures that cause it. Contacts nothing."""

from collections.abc import Iterator, Mapping

from appliance.acceptance import PROMISES
from appliance.benchmarks import BENCHMARKS
from appliance.checks.causes import NAMED_CHECK
from appliance.checks.check import AnyCheck, measured_against
from appliance.checks.extra_results import BESIDE, of_stage
from appliance.config.rules.base import near
from appliance.errors import ConfigError
from appliance.stages import NAMES
from appliance.stages.catalog import CAUSES, EVERY_CHECK
from appliance.stages.renamed import current


def known() -> Mapping[str, tuple[str, str]]:
    """By id the title and the explanation of everything that can be explained."""
    found = {c.id: (c.title, c.explain) for c in EVERY_CHECK}
    found |= {i: (b.title, b.explain) for b in BENCHMARKS for i in b.checks}
    found |= {promise.id: (promise.title, promise.explain) for promise in PROMISES}
    others = (*BESIDE, *(of_stage(name) for name in NAMES))
    return found | {other.id: (other.title, other.explain) for other in others}


def explained(check: str) -> str:
    """Title, explanation, limit and causes of one check, as lines. Raises ConfigError for an unknown id."""
    every = known()
    check = current(check)
    if check not in every:
        raise ConfigError(
            f"unknown check: {check}", near(check, every, "list the checks: appliance explain")
        )
    title, text = every[check]
    parts = [f"{check}: {title}\n\n{text}"]
    for one in EVERY_CHECK:
        if one.id == check:
            parts += _more(one)
    for benchmark in BENCHMARKS:
        if check in benchmark.bounds:
            parts.append(f"\nlimit: limit {check}: {benchmark.bounds[check]}")
    return "\n".join(parts)


def _more(check: AnyCheck) -> Iterator[str]:
    """The limit of the check, and the checks whose failures explain its own."""
    if against := measured_against(check):
        yield f"\nlimit: {against}"
    if causes := CAUSES.get(check.id):
        yield "\nExplained by a failure of:"
    for cause in causes or ():
        name = "checks that it lists" if cause.check == NAMED_CHECK else cause.check
        yield f"  {name:<22} {cause.because}"
