"""What keeps users from work though every file is as it was deployed: planted by hand, named by its check, and gone again."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from _pytest.mark import ParameterSet

from appliance.models.result import CheckResult, Status
from tests.integration.deployed import Deployed

pytestmark = [pytest.mark.rack, pytest.mark.slow]

BAD = frozenset({Status.FAIL, Status.ERROR})
SECONDS = 90.0
"""For what a plant or its end needs to be seen."""
PORT = "/var/lib/appliance-lab/sys/class/infiniband/mlx5_3/ports/1"
SYSFS = "/var/lib/appliance-lab/sys/class/infiniband/mlx5_3/device"
STATE = "/var/lib/appliance-lab/gpu.state"
KMSG = "/var/lib/appliance-lab/kmsg"


@dataclass(frozen=True)
class Fault:
    """``says`` is a piece of the cause, ``remedy`` the printed command that ends it, ``lab`` what takes away the rest of what was planted.

    Without a remedy and a deployment a part is to be replaced: there the lab does it. ``left``: what the remedy leaves, and health does not mind.
    """

    host: str
    plant: str
    check: str
    target: str
    says: str
    remedy: str = ""
    lab: str = "true"
    left: str = "true"
    deploys: tuple[str, ...] = ()
    """Flags of the deployment that the remedy names; it comes after ``remedy``."""
    part: tuple[str, ...] = ()
    """Host and fault of the rack that is there while ``plant`` is typed, and is cleared after it."""
    named: str = ""
    """What FOLDER of the remedy stands for."""


def gpu(change: str, check: str, target: str, says: str) -> Fault:
    """A value of the simulated NVML; the library reads the file when it is replaced."""
    plant = (
        f"cp {STATE} /root/state; sed {change} /root/state > {STATE}.new; mv {STATE}.new {STATE}"
    )
    lab = f"cp /root/state {STATE}.new; mv {STATE}.new {STATE}"
    return Fault("gpu-2", plant, check, target, says, lab=lab)


def kernel(message: str, target: str, says: str) -> Fault:
    """A record of the kernel's log."""
    plant = f"cp {KMSG} /root/kmsg; printf '3,900,%s000000,-;{message}\\n' $(cut -d. -f1 /proc/uptime) >> {KMSG}"
    lab = f"cp /root/kmsg {KMSG}"
    return Fault("gpu-2", plant, "base.kernel_log", f"gpu-2/{target}", says, lab=lab)


def sysfs(host: str, file: str, value: str, check: str, target: str, says: str) -> Fault:
    """A file of the simulated sysfs of an adapter."""
    plant = f"cp {file} /root/sysfs; echo '{value}' > {file}"
    return Fault(host, plant, check, target, says, lab=f"cp /root/sysfs {file}")


def suspended(host: str, unit: str, check: str, target: str) -> Fault:
    """A daemon whose process stands still while systemd calls it active."""
    plant = f"systemctl kill -s STOP --kill-who=main {unit}"
    says = f"{unit.removesuffix('.service')}"
    return Fault(host, plant, check, target, says, f"systemctl restart {unit}.service")


def stranger(host: str, file: str, line: str, *then: str) -> Fault:
    """A file beside the stages' own."""
    plant = f"mkdir -p $(dirname {file}); printf '{line}\\n' > {file}"
    says = f"{file} is not managed by the appliance"
    remedy = "; ".join([f"rm {file}", *then])
    return Fault(host, plant, "base.foreign", f"{host}{file}", says, remedy)


def script(host: str, line: str, word: str, says: str, pattern: str) -> Fault:
    """A line of a script that every login shell reads."""
    at = "/etc/profile.d/00-corp.sh"
    plant, remedy = f"echo '{line}' > {at}", f"sed -i -E '/{pattern}/d' {at}"
    return Fault(host, plant, "base.access", f"{host}{at},{word}", says, remedy, left=f"rm -f {at}")


DROP = (
    "nft add table inet corp; nft 'add chain inet corp in {{ type filter hook input priority -10; }}'; "
    "nft add rule inet corp in tcp dport {} drop"
)
DROPPED, NO_TABLE = "nft delete rule inet corp in handle 2", "nft delete table inet corp"
RELOAD = "systemctl daemon-reload"
HANGING = """
import socket, time
while True:
    held = [socket.create_connection(('127.0.0.1', 22)) for _ in range(20)]
    time.sleep(28)
    held.clear()
"""
END_PLANTED = (
    "systemctl kill -s KILL planted 2>/dev/null; systemctl reset-failed planted 2>/dev/null; true"
)
OF_TZDATA = "'/^Package: tzdata$/{p=1} /^$/{p=0} p'"
HALF_DONE = (
    "cp -a /var/lib/dpkg/status /root/status; awk '/^Package: tzdata$/{p=1} /^$/{p=0} "
    'p && /^Status:/{$0="Status: install ok half-configured"} {print}\' /root/status > /var/lib/dpkg/status'
)
LOCKING = (
    "import fcntl, os, signal; f = open('/var/lib/dpkg/lock-frontend', 'w'); "
    "fcntl.lockf(f, fcntl.LOCK_EX); os.kill(os.getpid(), signal.SIGSTOP)"
)
SPINNING = "for i in $(seq 30); do (while :; do :; done) & done; wait"
PLUGINS = "/usr/lib/x86_64-linux-gnu/slurm-wlm"
CHAIN = (
    "nft add table inet corp; nft 'add chain inet corp {0} {{ type filter hook {1} priority -10; }}'; "
    "nft add rule inet corp {0} "
)
REGISTER = (
    "mysql slurm_acct_db -e \"update cluster_table set deleted=1 where name='appliance'\"; systemctl restart slurmdbd; sleep 5; "
    "sacctmgr -i add cluster appliance"
)
OLDER = "apt-get -qqy --allow-downgrades --allow-change-held-packages install $(printf '%s=580.82.07-1 ' {})"
DRIVER_AGAIN = (
    "systemctl stop 'nvidia-*'; modprobe -r nvidia; modprobe nvidia; "
    "systemctl start nvidia-persistenced nvidia-fabricmanager nvidia-dcgm nvidia-dcgm-exporter"
)
"""Loads the installed driver, which nothing may use meanwhile."""
NO_SWEEP = (
    "cp -a /etc/opensm/opensm.conf /root/; sed -i 's/^sweep_interval.*/sweep_interval 0\\nsweep_on_trap FALSE/' /etc/opensm/opensm.conf; "
    "systemctl restart opensm; cp -a /root/opensm.conf /etc/opensm/opensm.conf; sleep 5"
)
"""A subnet manager that looks for no new ports."""
RESUME = "scontrol update nodename={} state=resume || true"
"""The host's own watch may have drained it while the fault was planted."""
FAULTS = {
    # Slurm's live state and its accounts.
    "partition-down": Fault("head", "scontrol update partition=gpu state=DOWN", "slurm.submit", "cluster/partition gpu", "partition gpu is DOWN", "scontrol update partitionname=gpu state=up"),
    "short-jobs-only": Fault("head", "scontrol update partition=gpu maxtime=1", "slurm.submit", "cluster/partition gpu", "MaxTime is 00:01:00, but the site sets UNLIMITED", "scontrol reconfigure"),
    "no-default-partition": Fault("head", "scontrol update partition=gpu default=no", "slurm.submit", "cluster/partition gpu", "Default is NO", "scontrol reconfigure"),
    "limit-of-nothing": Fault("head", "sacctmgr -i modify account default set GrpTRES=gres/gpu=0", "slurm.submit", "cluster/account default", "has the limit GrpTRES=gres/gpu=0", "sacctmgr -i modify account default set GrpTRES=gres/gpu=-1"),
    "no-minutes-left": Fault("head", "sacctmgr -i modify account default set GrpTRESMins=gres/gpu=0", "slurm.submit", "cluster/account default", "has the limit GrpTRESMins=gres/gpu=0", "sacctmgr -i modify account default set GrpTRESMins=gres/gpu=-1"),
    "reserved-for-root": Fault("head", "scontrol create reservation reservationname=keep starttime=now duration=30-0:0:0 users=root nodes=ALL flags=ignore_jobs", "slurm.submit", "cluster/reservation keep", "for root until", "scontrol delete reservation keep"),
    "maintenance-forgotten": Fault("head", "scontrol create reservation reservationname=maint starttime=now duration=365-0:0:0 users=root nodes=ALL flags=maint,ignore_jobs", "slurm.submit", "cluster/reservation maint", "for root until", "scontrol delete reservation maint"),
    "drained-by-a-person": Fault("head", "scontrol update nodename=gpu-2 state=drain reason=test", "slurm.nodes", "gpu-2", "test", "scontrol update nodename=gpu-2 state=resume"),
    "accounts-lost": Fault("head", "mysql slurm_acct_db -e 'rename table appliance_assoc_table to appliance_assoc_gone'; systemctl restart slurmdbd; sleep 5", "slurm.submit", "cluster/accounts", "the table of accounts of cluster appliance is empty", REGISTER, left="mysql slurm_acct_db -e 'drop table if exists appliance_assoc_gone'", deploys=("--stage", "slurm", "--hosts", "head", "--full")),
    "munge-closed": Fault("head", "chmod 0700 /run/munge", "slurm.munge", "head", "munged runs, but does not sign for users", "chmod 0755 /run/munge; systemctl restart munge"),
    "munge-with-an-old-key": Fault("gpu-2", "cp -a /etc/munge/munge.key /root/key; head -c 128 /dev/urandom > /etc/munge/munge.key; systemctl restart munge; sleep 2; cat /root/key > /etc/munge/munge.key", "slurm.munge", "gpu-2", "an older key than its file holds", "systemctl restart munge", "cp -a /root/key /etc/munge/munge.key"),
    "daemon-off-at-boot": Fault("gpu-2", "systemctl disable slurmd", "slurm.daemons", "gpu-2/slurmd", "will not start at the next boot", "systemctl enable slurmd"),
    "program-that-ends-with-1": Fault("gpu-1", "printf '#!/bin/sh\nexit 1\n' > /etc/slurm/health.d/90-site.sh; chmod 755 /etc/slurm/health.d/90-site.sh", "base.foreign", "gpu-1/etc/slurm/health.d/90-site.sh", "is not managed by the appliance", "rm /etc/slurm/health.d/90-site.sh"),
    # Daemons that stand still.
    "controller-stopped": suspended("head", "slurmctld", "slurm.daemons", "head/slurmctld"),
    "munge-with-another-key": Fault("gpu-2", "cp -a /etc/munge/munge.key /root/key; head -c 128 /dev/urandom > /etc/munge/munge.key; systemctl restart munge; sleep 2; cp -a /root/key /etc/munge/munge.key", "slurm.munge", "gpu-2", "another key than its file holds", "systemctl restart munge"),
    "munge-stopped": suspended("gpu-2", "munge", "slurm.munge", "gpu-2"),
    "clock-stopped": Fault("gpu-2", "systemctl kill -s STOP --kill-who=main chrony", "base.units", "gpu-2/chrony.service", "is suspended", "systemctl restart chrony.service"),
    "file-server-hangs": Fault("head", "systemctl kill -s STOP nfs-ganesha", "storage.server", "head", "nfs-ganesha.service is suspended", "systemctl restart nfs-ganesha.service"),
    "file-server-stopped": Fault("head", "systemctl stop nfs-ganesha", "storage.server", "head", "nfs-ganesha.service is inactive", deploys=("--stage", "storage")),
    "export-moved-away": Fault("head", "mv /srv/data /srv/data.old", "storage.export", "head/srv/data", "/srv/data no longer exists, and with it the data of users", "mv FOLDER /srv/data; systemctl restart nfs-ganesha.service", named="/srv/data.old"),
    "partition-leaves": Fault("head", "scontrol create partitionname=old nodes=ALL state=UP; sbatch --partition=old --chdir=/ --output=/dev/null --mem=16M --wrap='sleep 3600'", "slurm.leaving", "cluster/partition old", "partition old has 1 job, but is no longer in the site", "scancel --partition=old", left="scancel --partition=old; sleep 8; scontrol delete partitionname=old"),
    "exporter-stopped": Fault("gpu-2", "systemctl stop prometheus-node-exporter", "observe.exporter", "gpu-2", "prometheus-node-exporter.service is inactive", deploys=("--stage", "observe")),
    "account-without-time": Fault("head", "sacctmgr -i modify account default set MaxWall=1", "slurm.submit", "cluster/account default", "has the limit MaxWall=00:01:00", "sacctmgr -i modify account default set MaxWall=-1"),
    "qos-without-time": Fault("head", "sacctmgr -i modify qos normal set MaxWall=00:00:01", "slurm.submit", "cluster/QOS normal", "its jobs end after 60 s", "sacctmgr -i modify qos normal set MaxWall=-1"),
    "qos-without-gpus": Fault("head", "sacctmgr -i modify qos normal set MaxTRESPU=gres/gpu=0", "slurm.submit", "cluster/QOS normal", "has the limit MaxTRESPU=gres/gpu=0", "sacctmgr -i modify qos normal set MaxTRESPU=gres/gpu=-1"),
    "qos-of-reservations": Fault("head", "sacctmgr -i modify qos normal set Flags=RequiresReservation", "slurm.submit", "cluster/QOS normal", "has the limit Flags=RequiresReservation", "sacctmgr -i modify qos normal set Flags-=RequiresReservation"),
    # What users meet on a host.
    "devices-closed": Fault("gpu-1", "chmod 0600 /dev/nvidia*", "base.access", "gpu-1/dev/nvidia0", "users' programs cannot open GPUs", "chmod 0666 /dev/nvidia0", "chmod 0666 /dev/nvidia*"),
    "shared-memory-full": Fault("gpu-1", "mount -o remount,size=64M /dev/shm; dd if=/dev/zero of=/dev/shm/old bs=1M count=64 2>/dev/null", "base.access", "gpu-1/dev/shm", "/dev/shm/old of root takes 64 MiB", "rm -r /dev/shm/old", "mount -o remount,size=2468412k /dev/shm"),
    "tmp-closed": Fault("gpu-1", "chmod 0755 /tmp", "base.access", "gpu-1/tmp", "users cannot write there", "chmod 1777 /tmp"),
    "logins-closed": Fault("head", "echo maintenance > /etc/nologin", "base.access", "head/etc/nologin", "only root can log in", "rm /etc/nologin"),
    "accounts-unreadable": Fault("gpu-2", "chmod 0600 /etc/passwd", "base.access", "gpu-2/etc/passwd", "users' programs cannot read it", "chmod o+rX /etc/passwd", "chmod 0644 /etc/passwd"),
    "command-closed": Fault("head", "chmod 0700 /usr/bin/srun", "base.access", "head/usr/bin/srun", "users cannot run it", "chmod 0755 /usr/bin/srun"),
    "gpus-hidden": Fault("gpu-1", "echo 'export CUDA_VISIBLE_DEVICES=' > /etc/profile.d/00-corp.sh", "base.access", "gpu-1/etc/profile.d/00-corp.sh,CUDA_VISIBLE_DEVICES", "for every login", "sed -i '/CUDA_VISIBLE_DEVICES/d' /etc/profile.d/00-corp.sh", "rm -f /etc/profile.d/00-corp.sh"),
    # Accounts, logins and shells of users.
    "account-expired": Fault("head", "chage -E 0 bea", "base.access", "head/account bea", "has expired", "chage -E -1 bea"),
    "password-too-old": Fault("gpu-1", "chage -d 0 bea", "base.access", "gpu-1/account bea", "must change its password first", "chage -d -1 -M -1 bea", "chage -d $(date +%F) -M 99999 bea"),
    "home-of-root": Fault("head", "chown root: /data/home/bea", "base.access", "head/data/home/bea", "belongs to root", "chown bea: /data/home/bea"),
    "login-ends": Fault("head", "echo exit > /etc/profile.d/00-corp.sh", "base.access", "head/etc/profile.d/00-corp.sh,exit", "ends every login", "sed -i '/^\\s*exit/d' /etc/profile.d/00-corp.sh", "rm -f /etc/profile.d/00-corp.sh"),
    "login-limited": Fault("gpu-2", "echo 'ulimit -v 100000' > /etc/profile.d/00-corp.sh", "base.access", "gpu-2/etc/profile.d/00-corp.sh,ulimit -v", "limits every login", "sed -i '/^\\s*ulimit -v/d' /etc/profile.d/00-corp.sh", "rm -f /etc/profile.d/00-corp.sh"),
    "proxy-gone": Fault("gpu-1", "echo https_proxy=http://127.0.0.1:3128 >> /etc/environment", "base.access", "gpu-1/etc/environment,https_proxy", "127.0.0.1:3128, which takes no connection", "sed -i '/https_proxy=/d' /etc/environment"),
    "groups-elsewhere": Fault("gpu-2", "cp -a /etc/nsswitch.conf /root/nsswitch; sed -i 's/^group:.*/group: ldap/' /etc/nsswitch.conf", "base.access", "gpu-2/nsswitch.conf,group", "looks up group in 'ldap'", "sed -i 's/^group:/& files/' /etc/nsswitch.conf", "cp -a /root/nsswitch /etc/nsswitch.conf"),
    "sudo-without-its-bit": Fault("head", "chmod u-s /usr/bin/sudo", "base.access", "head/usr/bin/sudo", "is not setuid root", "chown root: /usr/bin/sudo; chmod 4755 /usr/bin/sudo"),
    "no-authorities": Fault("gpu-1", "cp -a /etc/ssl/certs/ca-certificates.crt /root/ca; : > /etc/ssl/certs/ca-certificates.crt", "base.access", "gpu-1/etc/ssl/certs/ca-certificates.crt", "trust no certificate", "update-ca-certificates --fresh", "cp -a /root/ca /etc/ssl/certs/ca-certificates.crt"),
    "library-closed": Fault("gpu-2", "chmod 0600 $(readlink -f /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1)", "base.access", "gpu-2/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "users' programs cannot read it", "chmod o+rX /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "chmod 0644 $(readlink -f /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1)"),
    "home-open-to-all": Fault("head", "chmod 0777 /home/ada", "base.access", "head/home/ada", "has mode 0777: sshd refuses the keys in it", "chmod go-w /home/ada", left="chmod 0700 /home/ada"),
    "keys-of-another": Fault("gpu-2", "chown bea /home/ada/.ssh", "base.access", "gpu-2/home/ada/.ssh", "is of another account: sshd refuses the keys in it", "chown ada: /home/ada/.ssh"),
    "pam-open-to-all": Fault("gpu-1", "sed -i '1i auth sufficient pam_permit.so' /etc/pam.d/common-auth", "base.access", "gpu-1/etc/pam.d/common-auth", "accepts everybody without a password", r"sed -i '1{/pam_permit\.so/d}' /etc/pam.d/common-auth"),
    "pam-closed-to-all": Fault("head", "sed -i '1i account required pam_deny.so' /etc/pam.d/sudo", "base.access", "head/etc/pam.d/sudo", "no admin can use sudo", r"sed -i '1{/pam_deny\.so/d}' /etc/pam.d/sudo"),
    "pam-module-gone": Fault("head", "sed -i '1i account required pam_tally.so' /etc/pam.d/sudo", "base.access", "head/etc/pam.d/sudo", "names a module that is not installed", r"sed -i '1{/pam_tally\.so/d}' /etc/pam.d/sudo"),
    "pam-asks-nothing": Fault("gpu-2", "sed -i /pam_unix/d /etc/pam.d/common-auth", "base.access", "gpu-2/etc/pam.d/common-auth", "no one can log in at the console", "DEBIAN_FRONTEND=noninteractive pam-auth-update --force", left="rm -f /etc/pam.d/*.pam-old"),
    # Files of nobody's.
    "unit-limited": stranger("gpu-2", "/etc/systemd/system/slurmd.service.d/zz.conf", "[Service]\nTasksMax=64", RELOAD, "systemctl restart slurmd.service"),
    "crontab": stranger("gpu-2", "/etc/cron.d/cleanup", "0 * * * * root pkill -9 python"),
    "limits": stranger("gpu-1", "/etc/security/limits.d/99-corp.conf", "* hard memlock 64"),
    "tasks-of-users": Fault("gpu-1", "mkdir -p /run/systemd/system/user-.slice.d; printf '[Slice]\nTasksMax=20\n' > /run/systemd/system/user-.slice.d/zz.conf; systemctl daemon-reload", "base.foreign", "gpu-1/run/systemd/system/user-.slice.d/zz.conf", "is not managed by the appliance", f"rm /run/systemd/system/user-.slice.d/zz.conf; {RELOAD}", left=f"rmdir /run/systemd/system/user-.slice.d; {RELOAD}"),
    # The system's own daemons, and the next boot.
    "few-files-for-jobs": Fault("gpu-1", "prlimit --pid $(systemctl show -P MainPID slurmd) --nofile=512:512", "base.access", "gpu-1/slurmd,open files", "a limit of 512 for open files, which jobs inherit", "systemctl restart slurmd"),
    "journal-stopped": Fault("gpu-1", "systemctl stop systemd-journald.socket systemd-journald-dev-log.socket systemd-journald.service", "base.units", "gpu-1/systemd-journald.service", "the unit is inactive", "systemctl start systemd-journald.service"),
    "no-dbus": Fault("gpu-2", "systemctl stop dbus.socket dbus.service", "base.units", "gpu-2/dbus.service", "the unit is inactive", "systemctl start dbus.service systemd-logind.service"),
    "logins-hang": Fault("gpu-2", f"systemd-run -q --collect --unit=planted python3 -c \"{HANGING}\"", "base.access", "gpu-2/sshd", "20 ssh logins have started and do not end", "systemctl restart ssh", "systemctl stop planted"),
    "boots-into-rescue": Fault("gpu-1", "systemctl -q set-default rescue.target", "base.units", "gpu-1/default.target", "the next boot ends in rescue.target", "systemctl set-default multi-user.target", left="rm /etc/systemd/system/default.target"),
    "boot-waits-for-a-disk": Fault("gpu-2", "cp -a /etc/fstab /root/fstab; echo 'UUID=0e4fb2a1-0000-4000-8000-000000000001 /mnt/old ext4 defaults 0 2' >> /etc/fstab", "base.units", "gpu-2/fstab,/mnt/old", "/etc/fstab mounts /mnt/old from a device that is not there", r"sed -i -E 's#^(\S+\s+/mnt/old\s+\S+\s+)#\1nofail,#' /etc/fstab", left="cp -a /root/fstab /etc/fstab; rm /root/fstab"),
    # The package manager, and processes outside jobs.
    "packages-half-done": Fault("gpu-1", HALF_DONE, "base.access", "gpu-1/dpkg", "tzdata is half-configured", "dpkg --configure -a"),
    "packages-journal": Fault("gpu-1", f"awk {OF_TZDATA} /var/lib/dpkg/status > /var/lib/dpkg/updates/0000", "base.access", "gpu-1/dpkg", "its journal is not empty", "dpkg --configure -a"),
    "packages-locked": Fault("gpu-1", f"systemd-run -q --collect --unit=planted python3 -c \"{LOCKING}\"; sleep 1", "base.access", "gpu-1/dpkg", "holds the lock of the package manager and is stopped", "kill -KILL $(systemctl show -P MainPID planted); sleep 1; dpkg --configure -a", left=END_PLANTED),
    "processors-used-outside-jobs": Fault("gpu-1", f"systemd-run -q --collect --unit=planted --uid=bea sh -c '{SPINNING}'", "base.access", "gpu-1/planted.service,sh", "processors outside jobs", "pkill -u bea -x sh", left=END_PLANTED),
    # Daemons whose limits logins and jobs inherit.
    "few-files-for-logins": Fault("head", "prlimit --pid $(cat /run/sshd.pid) --nofile=64:64", "base.access", "head/sshd,open files", "a limit of 64 for open files, which logins inherit", "systemctl restart ssh"),
    "one-processor-for-logins": Fault("head", "taskset -ap 1 $(cat /run/sshd.pid)", "base.access", "head/sshd,processors", "sshd may use 1 processor of", "systemctl restart ssh"),
    "few-processes-for-jobs": Fault("gpu-1", "prlimit --pid $(systemctl show -P MainPID slurmd) --nproc=50:50", "base.access", "gpu-1/slurmd,processes", "a limit of 50 for processes, which jobs inherit", "systemctl restart slurmd"),
    "small-files-for-jobs": Fault("gpu-2", "prlimit --pid $(systemctl show -P MainPID slurmd) --fsize=1000000:1000000", "base.access", "gpu-2/slurmd,file size", "a limit of 1000000 for file size, which jobs inherit", "systemctl restart slurmd"),
    "jobs-run-last": Fault("gpu-1", "renice -n 19 -p $(systemctl show -P MainPID slurmd)", "base.access", "gpu-1/slurmd,priority", "and jobs inherit it", "systemctl restart slurmd"),
    "processes-of-users-limited": Fault("head", "echo '* hard nproc 5' >> /etc/security/limits.conf", "base.access", "head/etc/security/limits.conf,* nproc", "limits nproc of every user to 5", r"sed -i -E '/^\s*\*\s+hard\s+nproc\s/d' /etc/security/limits.conf"),
    # Slurm's folders, plugins and limits.
    "state-of-root": Fault("head", "chown -R root: /var/lib/slurm/slurmctld", "base.access", "head/var/lib/slurm/slurmctld", "does not belong to slurm: batch jobs are refused", "chown -R slurm: /var/lib/slurm/slurmctld; systemctl reset-failed slurmctld; systemctl restart slurmctld"),
    "jobs-of-root": Fault("head", "mkdir -p /var/lib/slurm/slurmctld/hash.3; chown root: /var/lib/slurm/slurmctld/hash.3", "base.access", "head/var/lib/slurm/slurmctld", "hash.3 does not belong to slurm", "chown -R slurm: /var/lib/slurm/slurmctld; systemctl reset-failed slurmctld; systemctl restart slurmctld"),
    "metrics-of-root": Fault("head", "chown -R root: /var/lib/prometheus/metrics2; systemctl restart prometheus", "base.access", "head/var/lib/prometheus/metrics2", "does not belong to prometheus: prometheus does not start", "chown -R prometheus: /var/lib/prometheus/metrics2; systemctl reset-failed prometheus; systemctl restart prometheus"),
    "spool-read-only": Fault("gpu-2", "mount --bind /var/lib/slurm/slurmd /var/lib/slurm/slurmd; mount -o remount,ro,bind /var/lib/slurm/slurmd", "base.access", "gpu-2/var/lib/slurm/slurmd", "is read-only: no job starts", "mount -o remount,rw $(findmnt -n -o TARGET -T /var/lib/slurm/slurmd)", left="umount /var/lib/slurm/slurmd"),
    "plugin-lost": Fault("gpu-1", f"rm {PLUGINS}/cred_munge.so", "base.access", f"gpu-1{PLUGINS}/cred_munge.so", "does not exist: Slurm loads it for each job", f"apt-get install --reinstall -y $(dpkg-query -S {PLUGINS}/cred_munge.so | cut -d: -f1)"),
    "plugin-closed": Fault("gpu-2", f"chmod 0600 {PLUGINS}/libslurmfull.so", "base.access", f"gpu-2{PLUGINS}/libslurmfull.so", "cannot be read by users", f"chmod 0644 {PLUGINS}/libslurmfull.so"),
    "accounting-command-closed": Fault("head", "chmod 0700 /usr/bin/sacct", "base.access", "head/usr/bin/sacct", "users cannot run it", "chmod 0755 /usr/bin/sacct"),
    "qos-asks-for-too-much": Fault("head", "sacctmgr -i modify qos normal set MinTRES=cpu=1000", "slurm.submit", "cluster/QOS normal", "has the limit MinTRES=cpu=1000: the cluster has less", "sacctmgr -i modify qos normal set MinTRES=cpu=-1"),
    "memory-by-default": Fault("head", "scontrol update partition=gpu DefMemPerNode=90000000", "slurm.submit", "cluster/partition gpu", "DefMemPerNode is 90000000", "scontrol reconfigure"),
    # Logins.
    "login-prints": Fault("gpu-2", "cp -a /root/.bashrc /root/bashrc; sed -i '1i echo WELCOME' /root/.bashrc", "base.access", "gpu-2/login", "prints 'WELCOME' without a terminal", """sed -i '1i [ -z "$PS1" ] && return' ~/.bashrc""", left="mv /root/bashrc /root/.bashrc"),
    "login-waits": script("head", "sleep 20", "sleep", "waits 20 s at every login", r"^sleep\s"),
    "login-without-commands": script("head", "export PATH=/opt/corp/bin", "PATH", "users' shells find no command", r"^(export\s+)?PATH="),
    "login-hides-files": script("head", "umask 0777", "umask", "cannot read or write the files that they create", r"^umask\s"),
    "login-without-tmpdir": script("gpu-1", "export TMPDIR=/local/tmp", "TMPDIR", "sets TMPDIR to /local/tmp, which does not exist", r"^(export\s+)?TMPDIR="),
    "login-into-no-folder": script("head", "cd /data/project || exit 1", "cd", "because /data/project does not exist", r"^cd\s.*(exit|logout)"),
    "login-ends-at-an-error": script("gpu-2", "set -e", "set", "ends a login at the first command that fails", r"^set\s+-[a-z]*e"),
    "login-refused-by-address": Fault("gpu-2", "echo 'sshd: gpu-1' >> /etc/hosts.deny", "base.access", "gpu-2/etc/hosts.deny", "refuses ssh from gpu-1", r"sed -i -E '/^(sshd|ALL)\s*:.*gpu\-1/d' /etc/hosts.deny"),
    "no-control-device": Fault("gpu-1", "rm /dev/nvidiactl", "base.access", "gpu-1/dev/nvidiactl", "no program of users can use a GPU", "mknod -m 0666 /dev/nvidiactl c 195 255"),
    "tmp-without-programs": Fault("gpu-1", "mount -o remount,noexec /tmp", "base.access", "gpu-1/tmp", "runs no programs", "mount -o remount,exec $(findmnt -n -o TARGET -T /tmp)"),
    "tmp-read-only": Fault("gpu-1", "mount -o remount,ro /tmp", "base.access", "gpu-1/tmp", "users cannot write there", "mount -o remount,rw $(findmnt -n -o TARGET -T /tmp)"),
    # Network and time.
    "loopback-down": Fault("gpu-1", "ip link set lo down", "base.access", "gpu-1/lo", "the loopback interface lo is down", "ip link set lo up"),
    "another-address-for-a-name": Fault("gpu-1", "sed -i -E 's/^[0-9.]+(\\s+head)/192.0.2.9\\1/' /etc/hosts", "base.neighbours", "gpu-1/head", "gpu-1 resolves head to 192.0.2.9", deploys=("--stage", "base", "--hosts", "gpu-1")),
    "few-ports": Fault("gpu-1", "echo '40000 40003' > /proc/sys/net/ipv4/ip_local_port_range", "base.access", "gpu-1/ports", "programs have 4 ports for connections", "sysctl -w net.ipv4.ip_local_port_range='32768 60999'"),
    "user-without-a-route": Fault("gpu-1", "ip rule add prio 100 uidrange 2001-2001 prohibit", "base.access", "gpu-1/rule 100", "refuses packets of uid 2001-2001", "ip rule del prio 100"),
    "packets-diverted": Fault("gpu-2", "tc qdisc add dev host0 ingress; tc filter add dev host0 parent ffff: protocol ip prio 7 u32 match ip protocol 132 0xff action mirred egress redirect dev lo", "base.neighbours", "gpu-2/host0", "a traffic filter that sends packets to another interface", "tc filter del dev host0 parent ffff: prio 7", left="tc qdisc del dev host0 ingress"),
    "packets-of-a-user-dropped": Fault("gpu-2", CHAIN.format("out", "output") + "meta skuid 2001 drop", "base.neighbours", "gpu-2/nft", "drops packets of uid 2001", "nft delete rule inet corp out handle 2", left=NO_TABLE),
    "packets-lost-at-random": Fault("gpu-2", CHAIN.format("in", "input") + "numgen random mod 100 '<' 5 drop", "base.neighbours", "gpu-2/nft", "drops a part of all packets", DROPPED, left=NO_TABLE),
    "port-of-prometheus-held": Fault("head", "systemctl stop prometheus; systemd-run -q --collect --unit=planted python3 -m http.server -b 127.0.0.1 9090; sleep 2; systemctl start prometheus", "observe.server", "head/prometheus", "port 9090 is held by python3", "kill $(systemctl show -P MainPID planted); sleep 2; systemctl reset-failed prometheus.service; systemctl restart prometheus.service", left=END_PLANTED),
    "name-server-silent": Fault("gpu-1", "cp -a /etc/resolv.conf /root/rc; rm -f /etc/resolv.conf; echo nameserver 192.0.2.1 > /etc/resolv.conf", "base.neighbours", "gpu-1/resolv.conf", "192.0.2.1; only names in /etc/hosts", lab="rm -f /etc/resolv.conf; cp -a /root/rc /etc/resolv.conf"),
    "smaller-packets": Fault("gpu-2", "ip link set host0 mtu 1300", "base.neighbours", "gpu-2/host0", "has an MTU of 1300", "ip link set host0 mtu 1500"),
    "throttled": Fault("gpu-2", "tc qdisc add dev host0 root tbf rate 10mbit burst 32kbit latency 400ms", "base.neighbours", "gpu-2/host0", "the queueing discipline tbf, which limits it to 10 Mb/s", "tc qdisc del dev host0 root"),
    "shaped": Fault("gpu-1", "tc qdisc add dev host0 root handle 1: htb default 10; tc class add dev host0 parent 1: classid 1:10 htb rate 10mbit", "base.neighbours", "gpu-1/host0", "the queueing discipline htb", "tc qdisc del dev host0 root"),
    "route-to-nowhere": Fault("gpu-1", "ip route add blackhole $(getent ahostsv4 gpu-2 | awk '{print $1; exit}')/32", "base.neighbours", "gpu-1/gpu-2", "gpu-1 has a route blackhole", "ip route del blackhole $(getent ahostsv4 gpu-2 | awk '{print $1; exit}')"),
    "firewall-before-slurmd": Fault("gpu-2", DROP.format(6818), "base.neighbours", "gpu-2/port 6818", "no answer from slurmd of gpu-2", DROPPED, NO_TABLE),
    "firewall-before-slurmctld": Fault("head", DROP.format(6817), "base.neighbours", "head/port 6817", "no answer from slurmctld of head", DROPPED, left=NO_TABLE),
    "firewall-before-slurmdbd": Fault("head", DROP.format(6819), "slurm.accounting", "cluster", "slurmdbd does not answer", DROPPED, left=NO_TABLE),
    "ports-of-jobs-dropped": Fault("gpu-2", DROP.format("50000-52000"), "base.neighbours", "gpu-2/port 50001", "no answer from srun, MPI and NCCL of gpu-2", DROPPED, left=NO_TABLE),
    "address-of-another": Fault("gpu-2", "ip addr add $(getent ahostsv4 gpu-1 | awk '{print $1; exit}')/32 dev host0", "base.neighbours", "gpu-2/host0,gpu-1", "the address of gpu-1", "ip addr del $(getent ahostsv4 gpu-1 | awk '{print $1; exit}')/32 dev host0"),
    "no-default-route": Fault("gpu-1", "ip route show default > /root/route; ip route del default", "base.neighbours", "gpu-1/route", "has no route to its name server", "ip route add default via $(awk '{print $3}' /root/route)", left="ip route replace $(cat /root/route); rm /root/route"),
    "firewall-before-files": Fault("head", DROP.format(2049), "storage.server", "head", "nothing reaches its port 2049", DROPPED, NO_TABLE),
    "clock-asks-nobody": Fault("gpu-1", "chronyc offline; for s in $(chronyc -n -c sources | cut -d, -f3); do chronyc delete $s; done; true", "base.clock", "gpu-1", "queries no server", "systemctl restart chrony"),
    "time-dropped": Fault("gpu-2", "nft add table inet corp; nft 'add chain inet corp in { type filter hook input priority -10; }'; nft add rule inet corp in udp sport 123 drop; chronyc burst 4/4; sleep 10", "base.clock", "gpu-2", "no time server answered the last", f"{DROPPED}; systemctl restart chrony", left=NO_TABLE),
    "entry-for-another-machine": Fault("gpu-2", "ip neigh replace $(getent ahostsv4 gpu-1 | awk '{print $1; exit}') lladdr 02:00:00:00:00:01 dev host0 nud permanent", "base.neighbours", "gpu-2/gpu-1", "has a fixed entry for gpu-1", "ip neigh del $(getent ahostsv4 gpu-1 | awk '{print $1; exit}') dev host0"),
    "another-gateway": Fault("gpu-2", "ip route show default > /root/route; ip route replace default via $(awk '{sub(/[0-9]+$/, 250, $3); print $3}' /root/route)", "base.neighbours", "gpu-2/route", "no name server answers", "ip route replace default via $(awk '{print $3}' /root/route)", left="ip route replace $(cat /root/route); rm /root/route"),
    # Daemons whose settings differ from their files, and suspended services.
    "controller-with-other-settings": Fault("head", "cp -a /etc/slurm/slurm.conf /root/conf; echo MaxJobCount=2000 >> /etc/slurm/slurm.conf; systemctl restart slurmctld; sleep 4; cp -a /root/conf /etc/slurm/slurm.conf", "slurm.controller", "cluster/slurm.conf", "runs with other settings than its slurm.conf", "systemctl restart slurmctld"),
    "node-of-the-future": Fault("head", "scontrol update nodename=gpu-2 state=future", "slurm.nodes", "gpu-2", "Slurm does not know gpu-2", "systemctl restart slurmctld"),
    "database-read-only": Fault("head", "mysql -e 'set global read_only=1'", "slurm.accounting", "cluster/database", "database is read-only", "mysql -e 'set global read_only=0'"),
    "spool-full": Fault("gpu-1", "mount -t tmpfs -o size=64k,mode=755 tmpfs /var/lib/slurm/slurmd; dd if=/dev/zero of=/var/lib/slurm/slurmd/x bs=1k count=64 2>/dev/null; true", "base.access", "gpu-1/var/lib/slurm/slurmd", "0 KiB left: no job starts", "umount /var/lib/slurm/slurmd; systemctl restart slurmd"),
    "memory-of-slurmd-limited": Fault("gpu-2", "systemctl set-property --runtime slurmd.service MemoryMax=64M", "base.drift", "gpu-2", "50-MemoryMax.conf", "rm /run/systemd/system.control/slurmd.service.d/50-MemoryMax.conf; systemctl daemon-reload; systemctl restart slurmd.service"),
    "exporter-of-gpus-hangs": Fault("gpu-1", "systemctl kill -s STOP --kill-who=main nvidia-dcgm-exporter", "gpu.services", "gpu-1/nvidia-dcgm-exporter", "is suspended", "systemctl restart nvidia-dcgm-exporter.service"),
    "uid-of-another": Fault("gpu-1", "useradd -o -M -u 2001 tom", "base.access", "gpu-1/account tom", "has uid 2001, which is that of bea", "userdel -f tom"),
    "profile-broken": Fault("gpu-2", "echo 'if [ -d /opt/corp ]; then' >> /etc/profile", "base.access", "gpu-2/etc/profile,syntax", "no login reads it to its end", "cp /usr/share/base-files/profile /etc/profile"),
    "few-tasks-by-default": Fault("gpu-1", "sed -i '/^.Manager./a DefaultTasksMax=20' /etc/systemd/system.conf; systemctl daemon-reexec", "base.foreign", "gpu-1/etc/systemd/system.conf", "DefaultTasksMax", "cd $(mktemp -d); apt-get download $(dpkg-query -S /etc/systemd/system.conf | cut -d: -f1); dpkg-deb --fsys-tarfile *.deb | tar -xOf - ./etc/systemd/system.conf > /etc/systemd/system.conf; systemctl daemon-reexec"),
    "logins-of-root-alone": Fault("gpu-2", "echo -:ALL EXCEPT root:ALL >> /etc/security/access.conf", "base.foreign", "gpu-2/etc/security/access.conf", "differs from its package", "cd $(mktemp -d); apt-get download $(dpkg-query -S /etc/security/access.conf | cut -d: -f1); dpkg-deb --fsys-tarfile *.deb | tar -xOf - ./etc/security/access.conf > /etc/security/access.conf"),
    # Hardware and the kernel.
    "disk-error": kernel("blk_update_request: I/O error, dev sda, sector 12345678 op 0x0:(READ) flags 0x80700", "sda", "the disk returned an error"),
    "disk-offline": kernel("sd 2:0:0:0: rejecting I/O to offline device", "2:0:0:0", "took it offline"),
    "soft-lockup": kernel("watchdog: BUG: soft lockup - CPU#14 stuck for 23s! [python:4711]", "CPU#14", "a processor was stuck"),
    "hot-without-work": gpu("s/^gpu5.temperature=.*/gpu5.temperature=78/", "gpu.temperature", "gpu-2/GPU 5", "78 °C when idle"),
    "memory-without-a-job": gpu("s/^gpu3.memory_used=.*/gpu3.memory_used=64424509440/", "slurm.idle_gpus", "gpu-2/GPU 3", "no job runs on gpu-2"),
    "persistence-off": gpu("s/^gpu1.persistence=.*/gpu1.persistence=0/", "gpu.persistence", "gpu-2/GPU 1", "persistence is off"),
    "power-cut": gpu("s/^gpu4.power_limit_mw=.*/gpu4.power_limit_mw=250000/", "gpu.power", "gpu-2/GPU 4", "cut to 250 of 400 W"),
    "ecc-off": gpu("s/^gpu0.ecc=.*/gpu0.ecc=0/", "gpu.ecc", "gpu-2/GPU 0", "off"),
    "memory-lost": gpu("s/^gpu7.memory_total=.*/gpu7.memory_total=77309411328/", "gpu.memory", "gpu-2/GPU 7", "77.3 GB"),
    "transfers-repeated": gpu("s/^gpu6.pcie_replays=.*/gpu6.pcie_replays=250000/", "gpu.pcie", "gpu-2/GPU 6", "had to be repeated"),
    "another-firmware": gpu("s/^gpu3.vbios=.*/gpu3.vbios=92.00.19.00.01/", "gpu.vbios_spread", "cluster", "except for gpu-2/GPU 3"),
    "subnet-manager-stopped": Fault("head", "systemctl stop 'opensm@*'", "fabric.sm", "cluster", "no master subnet manager answers", "systemctl restart opensm"),
    "subnet-manager-hangs": Fault("head", "systemctl kill -s STOP 'opensm@*'", "fabric.sm", "cluster", "no master subnet manager answers", "systemctl restart opensm"),
    "log-fills-the-disk": Fault("gpu-1", "fallocate -l $(($(df --output=avail -B1M /var/log | tail -1) - 600))M /var/log/huge.log", "base.disk", "gpu-1//", "/var/log/huge.log of uid 0 takes", "truncate -s 0 /var/log/huge.log", left="rm -f /var/log/huge.log"),
    "no-python": Fault("gpu-2", "mv /usr/bin/python3 /usr/bin/python3.away", "host.reachable", "gpu-2", "/usr/bin/python3: No such file", "ln -s $(ls /usr/bin | grep -m1 -x 'python3[.][0-9]*') /usr/bin/python3", left="mv -f /usr/bin/python3.away /usr/bin/python3"),
    "adapter-at-half": sysfs("gpu-1", f"{SYSFS}/current_link_width", "8", "fabric.pcie", "gpu-1/mlx5_3", "runs at x8 at 16 GT/s, equal adapters at x16"),
    "adapter-of-ethernet": sysfs("gpu-1", f"{PORT}/link_layer", "Ethernet", "fabric.ports", "gpu-1/mlx5_3", "uses Ethernet"),
    # The stages' own settings and services.
    "unit-failed": Fault("gpu-2", "systemd-run -q --unit=planted false", "base.failed_units", "gpu-2", "failed: planted.service", "systemctl reset-failed planted.service"),
    "parameter-changed": Fault("gpu-1", "sysctl -qw net.ipv4.conf.all.accept_redirects=1", "base.sysctl", "gpu-1", "net.ipv4.conf.all.accept_redirects is 1, not 0", deploys=("--stage", "base", "--hosts", "gpu-1")),
    "parameter-of-the-next-boot": Fault("gpu-1", "echo net/core/somaxconn = 128 > /etc/sysctl.d/zz-corp.conf", "base.sysctl_boot", "gpu-1/net.core.somaxconn", "/etc/sysctl.d/zz-corp.conf is read last", r"sed -i -E '/^\s*-?net[./]core[./]somaxconn\s*=/d' /etc/sysctl.d/zz-corp.conf", left="rm -f /etc/sysctl.d/zz-corp.conf"),
    "older-system": Fault("gpu-2", "cp -a /usr/lib/os-release /root/; sed -i s/12/11/ /usr/lib/os-release", "base.os", "gpu-2", "debian-11 is not supported by this profile", lab="cp -a /root/os-release /usr/lib/os-release"),
    "memory-used-up": Fault("gpu-2", r"sed -E 's/^(MemAvailable: *)[0-9]+/\11000/' /proc/meminfo > /root/meminfo; mount --bind /root/meminfo /proc/meminfo", "base.memory", "gpu-2", "0 MiB of", lab="umount /proc/meminfo"),
    "no-nfs-client": Fault("gpu-2", "dpkg --force-all -r libnfs-utils", "storage.client", "gpu-2", "no NFS client", deploys=("--stage", "storage")),
    "data-not-mounted": Fault("head", "umount /data", "storage.mount", "head/data", "/data is not mounted", "systemctl restart 'data.mount'"),
    "scratch-not-mounted": Fault("gpu-1", "umount /scratch", "storage.scratch", "gpu-1", "nothing is mounted at /scratch", "systemctl restart 'scratch.mount'"),
    "export-read-only-for-clients": Fault("head", "sed -i 's/Access_Type = RW;/Access_Type = RO;/' /etc/ganesha/ganesha.conf; systemctl restart nfs-ganesha", "base.drift", "head", "file /etc/ganesha/ganesha.conf", deploys=("--hosts", "head")),
    "exporter-of-gpus-stopped": Fault("gpu-1", "systemctl stop nvidia-dcgm-exporter", "gpu.services", "gpu-1/nvidia-dcgm-exporter", "nvidia-dcgm-exporter.service is inactive", "systemctl enable --now nvidia-dcgm-exporter.service"),
    "persistence-daemon-stopped": Fault("gpu-1", "systemctl disable --now nvidia-persistenced", "gpu.persistence", "gpu-1/daemon", "persistence is off after the next boot", "systemctl enable --now nvidia-persistenced.service"),
    "fabric-manager-stopped": Fault("gpu-2", "systemctl stop nvidia-fabricmanager", "gpu.fabric_manager", "gpu-2", "the fabric manager is inactive", "systemctl enable --now nvidia-fabricmanager.service"),
    "driver-of-another-release": Fault("gpu-2", f"{OLDER.format('nvidia-driver-cuda nvidia-kernel-open-dkms nvidia-persistenced nvidia-fabricmanager')}; {DRIVER_AGAIN}", "gpu.driver_spread", "cluster", "580.82.07 on gpu-2", lab=RESUME.format("gpu-2"), deploys=("--stage", "gpu")),
    "port-not-configured": Fault("head", NO_SWEEP, "fabric.active", "gpu-1/mlx5_3", "no subnet manager has configured it", "systemctl restart opensm", RESUME.format("gpu-1"), part=("gpu-1", "port-down", "mlx5_3")),
    "controller-with-older-settings": Fault("head", "cp -a /etc/slurm/slurm.conf /root/; echo SlurmctldPort=6877 >> /etc/slurm/slurm.conf; systemctl restart slurmctld; timeout 20 sh -c 'until ss -ltn | grep -q :6877; do sleep 1; done'; cp -a /root/slurm.conf /etc/slurm/slurm.conf", "slurm.controller", "cluster", "slurmctld does not answer: down", "systemctl restart slurmctld"),
    "a-gpu-less": Fault("gpu-2", "sed -i 's/nvidia.0-7./nvidia[0-6]/' /etc/slurm/gres.conf; systemctl restart slurmd", "slurm.gres", "gpu-2", "slurmd has found 7 of the 8 GPUs", deploys=("--stage", "slurm", "--hosts", "gpu-2")),
    "rules-lost": Fault("head", "rm /etc/prometheus/rules/appliance.yml; systemctl reload prometheus", "observe.rules", "cluster", "Prometheus has 0 of", deploys=("--stage", "observe")),
    "targets-lost": Fault("head", "sed -i 's/job_name: node$/job_name: nodes/' /etc/prometheus/prometheus.yml; systemctl reload prometheus", "observe.targets", "gpu-1", "is not a target of Prometheus", deploys=("--stage", "observe")),
}  # fmt: skip
DRIFT = {
    "head": (("chmod 0700 /srv/data", "directory /srv/data"), ("sed -i s/Access_Type\\ =\\ RW/Access_Type\\ =\\ RO/ /etc/ganesha/ganesha.conf", "file /etc/ganesha/ganesha.conf"), ("sed -i s/ALL=full/ALL=limited/ /etc/opensm/partitions.conf", "file /etc/opensm/partitions.conf"), ("chown root:root /var/lib/slurm/slurmctld", "directory /var/lib/slurm/slurmctld")),
    "gpu-1": (("sed -i s/^server.*/server\\ 192.0.2.7\\ iburst/ /etc/chrony/chrony.conf", "file /etc/chrony/chrony.conf"), (": > /usr/share/keyrings/appliance-nvidia.asc", "file /usr/share/keyrings/appliance-nvidia.asc"), ("echo CgroupPlugin=cgroup/v9 >> /etc/slurm/cgroup.conf", "file /etc/slurm/cgroup.conf")),
    "gpu-2": (("timedatectl set-timezone Asia/Tokyo", "link /etc/localtime"), ("hostnamectl set-hostname node-x", "file /etc/hostname"), ("printf '#!/bin/sh\nexit 0\n' > /etc/slurm/health-check.sh", "file /etc/slurm/health-check.sh"), ("systemctl mask --now prometheus-node-exporter", "unit file prometheus-node-exporter.service")),
}  # fmt: skip
"""By host what is changed by hand, and what base.drift calls it."""


@pytest.fixture(scope="module")
def sound(deployed: Deployed) -> Iterator[Deployed]:
    """The rack with nothing wrong, before the first case and after the last."""
    until_good(deployed)
    yield deployed
    until_good(deployed)


def is_typed(fault: Fault) -> bool:
    """Whether the remedy ends it, and not the rack."""
    return bool(fault.remedy or fault.deploys)


def look(rack: Deployed) -> list[CheckResult]:
    done = rack.program("health", "--json")
    return [CheckResult.model_validate(item) for item in json.loads(done.stdout)["results"]]


def roots(rack: Deployed) -> set[tuple[str, str]]:
    return {(r.id, r.target) for r in look(rack) if r.status in BAD and not r.explained_by}


def until_good(rack: Deployed, fault: Fault | None = None) -> None:
    """Nothing is wrong, and of the fault there is not even a warning."""
    end = time.monotonic() + SECONDS
    while wrong := roots(rack) | (warnings(rack, fault) if fault else set()):
        assert time.monotonic() < end, wrong
        time.sleep(2.0)


def warnings(rack: Deployed, fault: Fault) -> set[tuple[str, str]]:
    one = (fault.check, fault.target)
    return {(r.id, r.target) for r in look(rack) if r.status is Status.WARN} & {one}


def named(rack: Deployed, fault: Fault) -> CheckResult:
    """What the look says of it. Some of it the hosts see within a minute."""
    end = time.monotonic() + SECONDS
    while True:
        for one in look(rack):
            if (one.id, one.target) == (fault.check, fault.target) and one.status is not Status.PASS:  # fmt: skip
                return one
        assert time.monotonic() < end, f"{fault.check} does not name {fault.target}"


def rows() -> Iterator[ParameterSet]:
    """All faults; `make test` takes the first of each check, `make remedies` takes all."""
    seen: set[str] = set()
    for name, fault in FAULTS.items():
        marks = [pytest.mark.remedies] if fault.check in seen else []
        seen.add(fault.check)
        yield pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [*rows()])
def test_what_keeps_users_from_work_is_named_and_its_remedy_ends_it(
    sound: Deployed, name: str
) -> None:
    planted_and_ended(sound, FAULTS[name])


def planted_and_ended(sound: Deployed, fault: Fault) -> None:
    """Plants it, finds it named, types the remedy, and finds nothing wrong."""
    if fault.part:
        sound.fault(*fault.part)
    sound.said(fault.host, fault.plant)
    if fault.part:
        sound.fault(*fault.part, clear=True)
    try:
        found = named(sound, fault)
        assert fault.says in found.cause
        assert not found.explained_by
        assert found.fix
        if fault.remedy:
            assert fault.remedy.partition(" $(")[0] in found.fix
            sound.said(fault.host, fault.remedy.replace("FOLDER", fault.named))
        if fault.deploys:
            assert " ".join(fault.deploys) in found.fix
            done = sound.deploy(*fault.deploys)
            assert done.returncode == 0, done.stdout + done.stderr
        if is_typed(fault) and fault.lab == "true":
            until_good(sound, fault)
    finally:
        sound.said(fault.host, f"{fault.lab}; {fault.left}")
    until_good(sound, fault)


def test_what_was_changed_by_hand_is_named_and_a_deployment_puts_it_back(sound: Deployed) -> None:
    for host, changes in DRIFT.items():
        for plant, _ in changes:
            sound.said(host, plant)
    found = {r.target: r for r in look(sound) if r.id == "base.drift" and r.status in BAD}
    for host, changes in DRIFT.items():
        for _, what in changes:
            assert what in found[host].names
        assert f"--hosts {host} restores them" in found[host].fix
    hosts = ",".join(DRIFT)
    done = sound.deploy("--hosts", hosts)
    assert done.returncode == 0, done.stdout + done.stderr
    until_good(sound)


def test_a_link_written_in_other_words_is_no_change(sound: Deployed) -> None:
    as_deployed = sound.said("gpu-2", "readlink /etc/localtime").strip()
    sound.said("gpu-2", "timedatectl set-timezone Asia/Tokyo; timedatectl set-timezone Etc/UTC")
    try:
        assert sound.said("gpu-2", "readlink /etc/localtime").strip() != as_deployed
        until_good(sound)
    finally:
        sound.said("gpu-2", f"ln -sfn {as_deployed} /etc/localtime")
