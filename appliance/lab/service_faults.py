"""Faults of the services of a rack host: real daemons, stopped or misconfigured, and of its security settings."""

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
"""The distribution's first package of the upstream version that it fixed later."""
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
        "the firewall's rules were flushed by hand",
        _by("nft delete table inet appliance", "base"),
        _by("systemctl restart appliance-firewall", "base"),
        check=base_ids.DRIFT,
        says="changed since the deployment: nftables inet appliance (loaded → not loaded)",
    ),
    Fault(
        "mount-options",
        "programs on scratch cannot be executed",
        _by("mount -o remount,bind,noexec /scratch", "storage"),
        _by("mount -o remount,bind,exec /scratch", "storage"),
        check=base_ids.DRIFT,
        says="changed since the deployment: mount options /scratch (none → noexec)",
    ),
    Fault(
        "devices-closed",
        "users' programs cannot open the GPUs",
        _by("chmod 0600 /dev/nvidia*", "gpu"),
        _by("chmod 0666 /dev/nvidia*", "gpu"),
        check=base_ids.ACCESS,
        target="HOST/dev/nvidia0",
        says="/dev/nvidia0 and 8 more: mode 0600, so that users' programs cannot open GPUs",
    ),
    Fault(
        "small-packets",
        "an interface takes smaller packets than those of the other hosts",
        _by("ip link set host0 mtu 1300", "base"),
        _by("ip link set host0 mtu 1500", "base"),
        check=base_ids.NEIGHBOURS,
        target="HOST/host0",
        says="host0 of gpu-1 has an MTU of 1300, 2 of 3 hosts have 1500: larger packets between them are lost",
    ),
    Fault(
        "foreign-prolog",
        "an unmanaged prolog is next to the appliance's",
        _by(f"echo '# unmanaged' > {PROLOG}", "slurm"),
        _by(f"rm -f {PROLOG}", "slurm"),
        check=base_ids.FOREIGN,
        target=f"HOST{PROLOG}",
        says=f'{PROLOG} is not managed by the appliance (of root, * UTC): "…"',
    ),
    Fault(
        "sshd-open",
        "a file that sshd reads first allows empty passwords",
        _by(f"echo 'PermitEmptyPasswords yes' > {SETTINGS}", "base"),
        _by(f"rm -f {SETTINGS}", "base"),
        check=base_ids.FOREIGN,
        target=f"HOST{SETTINGS}",
        says=f'{SETTINGS} is not managed by the appliance (of root, * UTC): "PermitEmptyPasswords yes"',
    ),
    Fault(
        "advisory",
        "a runc with known vulnerabilities is installed",
        _by(RUNC, "base"),
        _by(NO_RUNC, "base"),
        check=base_ids.ADVISORIES,
        target="HOST/runc",
        says=f"runc {OLD_RUNC} has known vulnerabilities, fixed in *",
    ),
)
