"""What can be made to go wrong with the services of a rack host: real daemons, stopped or led astray, and what keeps it safe."""

from collections.abc import Sequence

from appliance.adapters.process import run
from appliance.errors import ApplianceError
from appliance.lab import cgroups
from appliance.lab.fault import Action, Fault
from appliance.lab.spec import Rack, RackHost
from appliance.stages.base import ids as base_ids
from appliance.stages.slurm import ids as slurm_ids
from appliance.stages.storage import ids as storage_ids

KEY = "/etc/munge/munge.key"
KEPT = "/var/lib/appliance-lab/munge.key"
PROLOG = "/etc/slurm/prolog.d/99-stranger"
SETTINGS = "/etc/ssh/sshd_config.d/00-stranger.conf"
OLD_RUNC = "1.1.5+ds1-1"
"""As the distribution brought it first: of the very upstream version that it mended later."""
RUNC = f"""set -e
if dpkg -s runc >/dev/null 2>&1; then echo 'it has a runc already' >&2; exit 1; fi
at=$(mktemp -d); mkdir $at/DEBIAN
printf 'Package: runc\nVersion: {OLD_RUNC}\nArchitecture: all\nMaintainer: rack\nDescription: empty\n' > $at/DEBIAN/control
dpkg-deb --build $at $at.deb >/dev/null; dpkg -i $at.deb >/dev/null; rm -r $at $at.deb"""
NO_RUNC = f"""v=$(dpkg-query -W -f '${{Version}}' runc 2>/dev/null)
[ "$v" != {OLD_RUNC} ] || dpkg --purge runc >/dev/null"""
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
        check=slurm_ids.MUNGE,
        says="its munge key is not the site's: no other host accepts what it signs",
    ),
    Fault(
        "clock-lost",
        "the daemon that keeps the clock right does not run",
        _by("systemctl stop chrony", "base"),
        _by("systemctl start chrony", "base"),
        check=base_ids.UNITS,
        target="HOST/chrony.service",
        says="the unit is inactive (dead)",
    ),
    Fault(
        "scratch-gone",
        "scratch is not mounted",
        _by("systemctl stop scratch.mount", "storage"),
        _by("systemctl start scratch.mount", "storage"),
        check=storage_ids.SCRATCH,
        says="nothing is mounted at /scratch",
        drains=True,
    ),
    Fault(
        "firewall-gone",
        "somebody has flushed the firewall's rules",
        _by("nft delete table inet appliance", "base"),
        _by("systemctl restart appliance-firewall", "base"),
        check=base_ids.DRIFT,
        says="changed since it was deployed: nftables inet appliance (loaded → not loaded)",
    ),
    Fault(
        "mount-options",
        "no program runs from scratch any more",
        _by("mount -o remount,bind,noexec /scratch", "storage"),
        _by("mount -o remount,bind,exec /scratch", "storage"),
        check=base_ids.DRIFT,
        says="changed since it was deployed: mount options /scratch (none → noexec)",
    ),
    Fault(
        "foreign-prolog",
        "somebody's own prolog lies beside the appliance's",
        _by(f"echo '# somebody' > {PROLOG}", "slurm"),
        _by(f"rm -f {PROLOG}", "slurm"),
        check=base_ids.FOREIGN,
        target=f"HOST{PROLOG}",
        says=f'{PROLOG} is not the appliance\'s (of root, * UTC): "…"',
    ),
    Fault(
        "sshd-open",
        "a file that sshd reads first allows empty passwords",
        _by(f"echo 'PermitEmptyPasswords yes' > {SETTINGS}", "base"),
        _by(f"rm -f {SETTINGS}", "base"),
        check=base_ids.FOREIGN,
        target=f"HOST{SETTINGS}",
        says=f'{SETTINGS} is not the appliance\'s (of root, * UTC): "PermitEmptyPasswords yes"',
    ),
    Fault(
        "advisory",
        "somebody has installed a runc whose holes the distribution has mended since",
        _by(RUNC, "base"),
        _by(NO_RUNC, "base"),
        check=base_ids.ADVISORIES,
        target="HOST/runc",
        says=f"runc {OLD_RUNC} lacks mends of known holes: *",
    ),
)
