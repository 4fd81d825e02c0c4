"""Steps of the cluster benchmark, each a process of its own, so that its memory is its own: prints JSON.

python -m benchmarks.cluster_steps limits KUBECONFIG PROMETHEUS ROUNDS
python -m benchmarks.cluster_steps acceptance KUBECONFIG PROMISE...
python -m benchmarks.cluster_steps facts ROOT
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Answer = dict[str, Any]


def limits(kubeconfig: str, prometheus: str, rounds: str) -> Answer:
    """Rounds of appliance-limits: the first reads who owns each pod, the others know it."""
    from appliance.limits.command import look
    from appliance.limits.keeper import Keeper
    from appliance.limits.lease import Lease

    keeper = Keeper(Lease("benchmark"), prometheus)
    taken = []
    for _ in range(int(rounds)):
        began, used = time.monotonic(), time.process_time()
        seen = look(keeper, kubeconfig)
        cost = {"wall": time.monotonic() - began, "cpu": time.process_time() - used}
        keys = ("problem", "pods", "limited", "unknown", "metrics")
        taken.append({**cost, **{key: seen.get(key) for key in keys}})
    return {"rounds": taken, "ended": keeper.totals}


def acceptance(kubeconfig: str, *chosen: str) -> Answer:
    """Promises of the scheduler, tried as ``appliance validate scheduler`` tries them."""
    from appliance.acceptance import PROMISES
    from appliance.acceptance.sandbox import Settings
    from appliance.acceptance.trial import run
    from appliance.actions.trials.scheduler import Api, WallClock
    from appliance.adapters.kubernetes import KubernetesApi

    wanted = [promise for promise in PROMISES if promise.id.partition(".")[2] in chosen]
    with KubernetesApi(Path(kubeconfig)) as api:
        found = run(Api(api), WallClock(), Settings(), promises=wanted)
        verdicts = []
        for verdict in found:
            verdicts.append(
                {"id": verdict.id, "status": verdict.status.value, "cause": verdict.cause}
            )
            verdicts[-1]["evidence"] = verdict.evidence
    return {"verdicts": verdicts}


def facts(root: str) -> Answer:
    """What the probe asks of the cluster on a control host, whose files lie below ``root``."""
    from appliance.probe.ask import Ask
    from appliance.stages.kubernetes.collect import cluster
    from appliance.stages.scheduler.collect import scheduler

    ask = Ask({}, root)
    found = scheduler.collect(ask)["scheduler"]
    nodes = cluster._cluster(ask)
    return {
        "gpus": sum(found["gpus"].values()) if found["gpus"] else None,
        "policies": len(found["policies"] or ()),
        "nodes": len(nodes["nodes"] or ()),
        "problems": ask.problems,
    }


STEPS: dict[str, Callable[..., Answer]] = {
    "limits": limits,
    "acceptance": acceptance,
    "facts": facts,
}


if __name__ == "__main__":
    name, *words = sys.argv[1:]
    sys.stdout.write(json.dumps(STEPS[name](*words)) + "\n")
