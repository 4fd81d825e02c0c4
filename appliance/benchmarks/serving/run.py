"""Sends requests to a server from this machine, and judges its answers."""

import ssl

from appliance.adapters.remote import Remote
from appliance.benchmarks.benchmark import Outcome, Raw
from appliance.benchmarks.serving import load, tables
from appliance.benchmarks.serving.figures import figure
from appliance.benchmarks.serving.gates import ANSWERS, CHECKS
from appliance.benchmarks.serving.http import server
from appliance.benchmarks.serving.judge import SERVER, UNNAMED, Limits, judge
from appliance.benchmarks.serving.request import Request
from appliance.benchmarks.serving.stream import Refused
from appliance.checks.check import View, not_assessed
from appliance.errors import ConfigError
from appliance.models.result import CLUSTER

NAMED = "set it: appliance validate serving --endpoint URL"


def run(view: View, _: Remote, request: Request | None = None) -> Outcome:
    """For a site: with its limits."""
    if request is None:
        return Outcome((not_assessed(CLUSTER, "no server is set", fix=NAMED).of(ANSWERS),))
    limits = {name: view.limit(name) for name in CHECKS}
    return ask(request, limits, simulated=bool(view.site.simulated))


def ask(request: Request, limits: Limits, *, simulated: bool = False) -> Outcome:
    """Raises ConfigError for a file of certificates that is none."""
    try:
        at = server(request.endpoint, request.ca, request.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"--ca {request.ca}: {error.strerror or error}") from None
    try:
        model, levels = load.levels(at, request)
    except (Refused, OSError, TimeoutError) as error:
        why = f"{request.endpoint} cannot be measured: {load.why(error)}"
        fix = UNNAMED if isinstance(error, Refused) and not request.model else SERVER
        return Outcome((not_assessed(CLUSTER, why, fix=fix).of(ANSWERS),))
    found = tuple(map(figure, levels))
    results = [r.model_copy(update={"simulated": simulated}) for r in judge(found, limits)]
    told = {"endpoint": request.endpoint, "model": model}
    prompts = sorted({one.prompt for one in found if one.prompt is not None})
    note = f"Asked for {request.tokens} tokens after {request.words} words"
    note += f" ({prompts[0]} to {prompts[-1]} tokens by the server's count)." if prompts else "."
    return Outcome(
        tuple(results),
        tuple(tables.measurements(found, dict(told), simulated)),
        (tables.table(found, model, note),),
        (Raw("levels.json", "[" + ",\n".join(one.model_dump_json() for one in found) + "]\n"),),
    )
