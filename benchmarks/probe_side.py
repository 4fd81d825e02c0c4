"""What one look at a host costs that host."""

import json
from pathlib import Path

from appliance.actions.sites.opening import Target, open_session
from appliance.cli.options import quiet
from appliance.engine.look.gather import PYTHON
from appliance.engine.look.probe_requests import request_for
from appliance.probe.bundle import command, compiled, payload
from benchmarks.timing import Cost, Row

# Runs the probe as a child and prints its seconds: wall, then processor time of it and of all programs it asks.
STOPWATCH = """
import json, resource, subprocess, sys, time
began = time.monotonic()
subprocess.run(sys.argv[1:], stdin=sys.stdin, stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([time.monotonic() - began, used.ru_utime + used.ru_stime]))
"""


def probes(site: Path, rounds: int) -> tuple[Row, ...]:
    """One row per host, each host alone: side by side they would share this machine's processors."""
    with open_session(Target(site), "benchmark", quiet()) as session:
        rows = []
        for host in session.site.hosts:
            request = payload(dict(request_for(session, host.name)), compiled())
            argv = [PYTHON, "-c", STOPWATCH, *command(PYTHON)]
            costs = []
            for _ in range(rounds):
                done = session.remote.run(host.name, argv, input=request)
                if done.returncode:
                    raise SystemExit(f"{host.name}: {done.stderr}")
                costs.append(Cost(*json.loads(done.stdout)))
            rows.append(Row(f"probe on {host.name}", tuple(costs)))
    return tuple(rows)
