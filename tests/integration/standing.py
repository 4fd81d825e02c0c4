"""What a host is at a moment, to be compared with another: its files, daemons, jobs, and what health says of it."""

import json
from collections.abc import Iterable
from typing import Any

from appliance.models.result import Status
from tests.integration.deployed import Deployed

TAKE = r"""
import glob, hashlib, json, os, stat, subprocess
PLACES = {"file", "directory", "link", "home", "keywords", "source", "every file"}
def state(path):
    try:
        found = os.lstat(path)
    except OSError as error:
        return error.strerror
    told = [oct(found.st_mode), found.st_uid, found.st_gid]
    if stat.S_ISLNK(found.st_mode):
        told.append(os.readlink(path))
    elif stat.S_ISREG(found.st_mode):
        with open(path, "rb") as file:
            told.append(hashlib.sha256(file.read()).hexdigest())
    return told
def said(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout.decode()
paths = {os.path.join(folder, name) for folder, below, files in os.walk("/etc") for name in below + files}
named = 0
for receipt in glob.glob("/var/lib/appliance/receipts/*.json"):
    with open(receipt) as file:
        document = json.load(file)
    for resource in document["resources"]:
        if str(resource.get("name")).startswith("/"):
            paths.add(resource["name"])
            named += 1
shown = "--property=Id,MainPID,ExecMainStartTimestampMonotonic,ActiveEnterTimestampMonotonic,NRestarts"
units = [
    line.split()[0]
    for line in said("systemctl", "list-units", "--type=service", "--state=running", "--plain", "--no-legend").splitlines()
]
# What a login or a timer runs for a moment is no daemon.
units = [unit for unit in units if "@" not in unit and said("systemctl", "show", "--property=Type", unit) != "Type=oneshot\n"]
print(json.dumps({
    "files": {path: state(path) for path in sorted(paths)},
    "named": named,
    "daemons": sorted(said("systemctl", "show", shown, *units).split("\n\n")),
}))
"""
JOBS = "squeue --noheader --format='%i %u %j %T %S %N %B'"

State = dict[str, Any]


def taken(deployed: Deployed, hosts: Iterable[str]) -> dict[str, State]:
    """Files that receipts name and all of /etc, with digests, modes and owners, and daemons with process and start."""
    return {host: json.loads(_run(deployed, host)) for host in hosts}


def _run(deployed: Deployed, host: str) -> str:
    done = deployed.shell(host, "python3 -", input=TAKE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def jobs(deployed: Deployed, user: str) -> list[str]:
    """Jobs of a user that wait or run: id, state, start, hosts. Finished ones are forgotten after minutes (MinJobAge)."""
    return sorted(deployed.said("head", f"{JOBS} --user={user}").splitlines())


def differences(before: State, after: State) -> list[str]:
    """Paths and daemons that are not as they were."""
    files = {**before["files"], **after["files"]}
    changed = [p for p in files if before["files"].get(p) != after["files"].get(p)]
    ran, runs = set(before["daemons"]), set(after["daemons"])
    return [
        *changed,
        *(f"gone: {one}" for one in ran - runs),
        *(f"new: {one}" for one in runs - ran),
    ]


def verdicts(deployed: Deployed, hosts: Iterable[str]) -> list[dict[str, Any]]:
    """What health says of these hosts; of what passes the measured number is another each time."""
    done = deployed.program("health", "--json")
    told = [one for one in json.loads(done.stdout)["results"] if one["host"] in set(hosts)]
    for one in told:
        if one["status"] == Status.PASS and isinstance(one["value"], float):
            one["value"] = None
    return sorted(told, key=lambda one: (one["id"], one["target"]))
