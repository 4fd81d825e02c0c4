"""What can be made to go wrong with the services of a rack host: real daemons, stopped or led astray."""

from collections.abc import Sequence

from appliance.adapters.process import run
from appliance.errors import ApplianceError
from appliance.lab import cgroups
from appliance.lab.fault import Action, Fault
from appliance.lab.spec import Rack, RackHost

KEY = "/etc/munge/munge.key"
KEPT = "/var/lib/appliance-lab/munge.key"
OTHER_KEY = f"""set -e
[ -e {KEPT} ] || cp -p {KEY} {KEPT}
head -c 128 /dev/urandom | base64 -w0 > {KEY}
systemctl restart munge"""
OWN_KEY = f"""set -e
[ ! -e {KEPT} ] || mv {KEPT} {KEY}
systemctl restart munge"""


def _shell(host: RackHost, script: str, remedy: str) -> None:
    init = cgroups.init(host)
    if init is None:
        raise ApplianceError(f"{host.name} does not run", "appliance lab up starts it")
    done = run(("nsenter", "--target", str(init), "--all", "sh", "-c", script), check=False)
    if done.returncode:
        raise ApplianceError(f"{host.name}: {done.stderr.strip()[-120:]}", remedy)


def _by(script: str, stage: str) -> Action:
    def act(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
        del rack, arguments
        _shell(host, script, f"stage {stage} brings it: appliance deploy --until {stage}")

    return act


SERVICE_FAULTS = (
    Fault(
        "munge-key",
        "munge has another key than the site's other hosts",
        _by(OTHER_KEY, "slurm"),
        _by(OWN_KEY, "slurm"),
        check="slurm.munge",
        says="its munge key is not the site's: no other host accepts what it signs",
    ),
    Fault(
        "clock-lost",
        "the daemon that keeps the clock right does not run",
        _by("systemctl stop chrony", "base"),
        _by("systemctl start chrony", "base"),
        check="base.units",
        target="HOST/chrony.service",
        says="the unit is inactive (dead)",
    ),
    Fault(
        "scratch-gone",
        "scratch is not mounted",
        _by("systemctl stop scratch.mount", "storage"),
        _by("systemctl start scratch.mount", "storage"),
        check="storage.scratch",
        says="nothing is mounted at /scratch",
        drains=True,
    ),
)
