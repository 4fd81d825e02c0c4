"""Changes by hand on a deployed rack, as data: what each does, who tells it in which words, and who puts it back.

All of a host are planted at once, so none of them may hide another.
"""

from dataclasses import dataclass
from enum import StrEnum

from tests.integration.deployed import ADMIN

SYSTEM = "/etc/systemd/system"
UNIT = "[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n"
EXPORTER = "prometheus-node-exporter"
KEY = "rm -f /tmp/k /tmp/k.pub; ssh-keygen -q -t ed25519 -N '' -f /tmp/k"
TRUE = "[Service]\\nEnvironment=LD_PRELOAD=/tmp/evil.so\\n"
OTHER = """cd "$(mktemp -d)"; dpkg-deb -R /var/cache/apt/archives/{package}_*.deb tree
sed -i "s/^Version: .*/Version: {version}/" tree/DEBIAN/control; dpkg-deb -b tree x.deb >/dev/null; dpkg -i x.deb >/dev/null 2>&1"""
STRANGER = (
    "cd $(mktemp -d); mkdir -p t/DEBIAN; printf 'Package: stranger\\nVersion: 1.0\\nArchitecture: all\\n"
    "Maintainer: x <x@example.org>\\nDescription: x\\n' > t/DEBIAN/control; dpkg-deb -b t x.deb >/dev/null;"
    " dpkg -i x.deb >/dev/null"
)


class Verb(StrEnum):
    """Who tells it: the plan, the judgement of now, the comparison with the baseline, that of every file."""

    PLAN = "plan"
    HEALTH = "health"
    SINCE = "since"
    DEEP = "deep"


@dataclass(frozen=True)
class Change:
    """``plant`` and ``undo`` are lines for the host's shell; ``told`` stands in one line of that host's by that verb.

    Without ``undo`` the next deployment of ``stage`` puts it back.
    """

    kind: str
    host: str
    verb: Verb
    told: str
    plant: str
    undo: str = ""
    stage: str = ""


P, H, S, D = Verb


def _repaired(kind: str, stage: str, *rows: tuple[str, str, str]) -> tuple[Change, ...]:
    return tuple(Change(kind, host, P, told, plant, stage=stage) for host, told, plant in rows)


def _undone(kind: str, *rows: tuple[str, Verb, str, str, str]) -> tuple[Change, ...]:
    return tuple(Change(kind, *row) for row in rows)


def _file(kind: str, *rows: tuple[str, Verb, str, str]) -> tuple[Change, ...]:
    """A file that is new: its line names it."""
    return tuple(
        Change(
            kind,
            host,
            verb,
            f"{path} ",
            f"test ! -e {path}; mkdir -p {path.rpartition('/')[0]}; printf -- '{text}\\n' > {path}",
            f"rm {path}",
        )
        for host, verb, path, text in rows
    )


def _edited(kind: str, *rows: tuple[str, Verb, str, str]) -> tuple[Change, ...]:
    """A line more in a file of a package."""
    return tuple(
        Change(
            kind,
            host,
            verb,
            path,
            f"cp -a {path} {path}.dpkg-old; printf '{text}\\n' >> {path}",
            f"mv {path}.dpkg-old {path}",
        )
        for host, verb, path, text in rows
    )


FIREWALL = (
    *_repaired(
        "firewall",
        "base",
        (
            "head",
            "nftables inet appliance (loaded → not loaded)",
            "nft delete table inet appliance",
        ),
        (
            "gpu-1",
            'nftables inet appliance (as written → "chain input: tcp dport 99 accept")',
            "nft insert rule inet appliance input tcp dport 99 accept",
        ),
        (
            "gpu-2",
            'nftables inet appliance ("chain input: type filter hook input priority 0; policy drop;"',
            "nft chain inet appliance input '{ policy accept; }'",
        ),
    ),
    *_undone(
        "firewall",
        (
            "gpu-1",
            S,
            "firewall table ip theirs is new: at prerouting",
            "nft add table ip theirs; nft add chain ip theirs c '{ type nat hook prerouting priority -100; }'",
            "nft delete table ip theirs",
        ),
    ),
    *_file("firewall", ("gpu-2", H, "/etc/nftables.d/99-x.nft", "# x")),
)
SSH = (
    *_file(
        "ssh",
        ("gpu-1", H, "/etc/ssh/sshd_config.d/00-a.conf", "PermitEmptyPasswords yes"),
        ("gpu-2", D, "/root/.rhosts", "+ +"),
    ),
    *_edited(
        "ssh",
        ("gpu-2", H, "/etc/ssh/sshd_config", "Banner /etc/shadow"),
        ("head", D, "/etc/default/ssh", "SSHD_OPTS=-oPermitRootLogin=yes"),
        ("gpu-1", D, "/etc/ssh/ssh_config", "ProxyCommand /tmp/evil"),
    ),
)
KEYS = _undone(
    "keys",
    (
        "gpu-1",
        H,
        "root/.ssh/authorized_keys ",
        f"{KEY}; cp -a /root/.ssh/authorized_keys /root/.ssh/kept; cat /tmp/k.pub >> /root/.ssh/authorized_keys",
        "mv /root/.ssh/kept /root/.ssh/authorized_keys; rm /tmp/k /tmp/k.pub",
    ),
    (
        "gpu-2",
        S,
        " of man is new",
        f"{KEY}; mkdir -p /var/cache/man/.ssh; cp /tmp/k.pub /var/cache/man/.ssh/authorized_keys",
        "rm -rf /tmp/k /tmp/k.pub /var/cache/man/.ssh",
    ),
    (
        "head",
        H,
        f"/home/{ADMIN}/.ssh/authorized_keys2 ",
        f"{KEY}; cp /tmp/k.pub /home/{ADMIN}/.ssh/authorized_keys2",
        f"rm /tmp/k /tmp/k.pub /home/{ADMIN}/.ssh/authorized_keys2",
    ),
)
KERNEL = (
    *_repaired(
        "kernel",
        "base",
        (
            "head",
            "sysctl net.core.somaxconn (4096 → 1024)",
            "echo 1024 > /proc/sys/net/core/somaxconn",
        ),
        (
            "gpu-2",
            "sysctl net.ipv4.conf.all.accept_redirects (0 → 1)",
            "echo 1 > /proc/sys/net/ipv4/conf/all/accept_redirects",
        ),
    ),
    *_undone(
        "kernel",
        (
            "gpu-1",
            H,
            "/etc/sysctl.d/99-zzz.conf",
            "echo net.core.somaxconn=128 > /etc/sysctl.d/99-zzz.conf",
            "rm /etc/sysctl.d/99-zzz.conf",
        ),
        (
            "gpu-2",
            S,
            "kernel parameter net.ipv4.conf.all.route_localnet: 0 then, 1 now",
            "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet",
            "echo 0 > /proc/sys/net/ipv4/conf/all/route_localnet",
        ),
    ),
    *_file(
        "kernel",
        ("gpu-1", D, "/etc/modprobe.d/x.conf", "install nvidia_uvm /tmp/evil"),
        ("head", D, "/etc/modules-load.d/x.conf", "evil"),
        ("gpu-2", D, "/etc/udev/rules.d/99-x.rules", 'RUN+="/tmp/evil"'),
        ("gpu-1", D, "/etc/default/grub.d/x.cfg", "GRUB_CMDLINE_LINUX=iommu=off"),
    ),
)
UNITS = (
    *_repaired(
        "units",
        "observe",
        (
            "head",
            f"unit {EXPORTER}.service (enabled → disabled)",
            f"systemctl disable -q {EXPORTER}",
        ),
    ),
    *_repaired(
        "units",
        "gpu",
        (
            "gpu-1",
            "unit appliance-cdi.service (active → inactive)",
            "systemctl stop appliance-cdi",
        ),
    ),
    *_repaired(
        "units",
        "base",
        ("gpu-2", "unit chrony.service (enabled → masked)", "systemctl mask -q chrony"),
    ),
    *_undone(
        "units",
        (
            "gpu-1",
            S,
            "unit evil.service is new: wanted by multi-user.target",
            f"printf '{UNIT}' > /usr/lib/systemd/system/evil.service; systemctl enable -q evil.service",
            "systemctl disable -q evil.service; rm /usr/lib/systemd/system/evil.service",
        ),
        (
            "gpu-2",
            S,
            "unit apt-daily.timer was removed",
            "systemctl disable -q apt-daily.timer",
            "systemctl enable -q apt-daily.timer",
        ),
        (
            "gpu-1",
            P,
            "unit file slurmd.service (as written → /etc/systemd/system.control/slurmd.service.d/50-TasksMax.conf",
            "systemctl set-property slurmd TasksMax=99999",
            "rm -r /etc/systemd/system.control/slurmd.service.d",
        ),
    ),
    *_file(
        "units",
        ("gpu-1", H, f"{SYSTEM}/slurmd.service.d/x.conf", TRUE),
        ("gpu-2", D, f"{SYSTEM}/dbus.service.d/x.conf", TRUE),
        ("head", S, f"{SYSTEM}/idle.timer", "[Timer]\\nOnCalendar=hourly"),
        ("gpu-2", D, "/etc/systemd/system-generators/x", "# evil"),
    ),
)
MOUNTS = (
    *_repaired(
        "mounts",
        "storage",
        (
            "gpu-1",
            "mount options /scratch (none → noexec)",
            "mount -o remount,bind,noexec /scratch",
        ),
    ),
    *_undone(
        "mounts",
        (
            "gpu-2",
            S,
            "mount /usr/games is new: tmpfs of evil",
            "mount -t tmpfs evil /usr/games",
            "umount /usr/games",
        ),
        (
            "head",
            S,
            "mount /etc/logrotate.d is new: ",
            "mount --bind /etc/logrotate.d /etc/logrotate.d",
            "umount /etc/logrotate.d",
        ),
    ),
    *_file("mounts", ("head", H, "/etc/exports.d/x.exports", "/ *(rw)")),
    *_file("mounts", ("gpu-1", S, f"{SYSTEM}/mnt.mount", "[Mount]\\nWhat=x\\nWhere=/mnt")),
)
SLURM = (
    *_file(
        "slurm",
        ("gpu-1", H, "/etc/slurm/prolog.d/99-x", "#!/bin/sh"),
        ("gpu-2", H, "/etc/slurm/health.d/99-x", "#!/bin/sh"),
        ("head", H, "/etc/slurm/job_submit.lua", "-- x"),
        ("gpu-2", H, "/etc/slurm/plugstack.conf.d/x.conf", "optional /tmp/evil.so"),
    ),
    *_repaired(
        "slurm",
        "slurm",
        (
            "gpu-2",
            "file /etc/slurm/slurm.conf (as written → changed",
            "sed -i 's/^ReturnToService=.*/ReturnToService=0/' /etc/slurm/slurm.conf",
        ),
        (
            "gpu-1",
            "file /etc/slurm/gres.conf (mode 0644 → mode 0666)",
            "chmod 0666 /etc/slurm/gres.conf",
        ),
    ),
    *_undone(
        "slurm",
        (
            "head",
            S,
            "Slurm partition gpu MaxTime: UNLIMITED then, 00:05:00 now",
            "scontrol update PartitionName=gpu MaxTime=5",
            "scontrol update PartitionName=gpu MaxTime=UNLIMITED",
        ),
        (
            "head",
            S,
            "Slurm reservation evil is new: nodes gpu-1, users root",
            "scontrol create reservation ReservationName=evil StartTime=now+1day Duration=1 Nodes=gpu-1 Users=root",
            "scontrol delete ReservationName=evil",
        ),
        (
            "head",
            S,
            "Slurm operator games is new: Operator",
            "sacctmgr -iQ add user games account=root adminlevel=operator",
            "sacctmgr -iQ delete user games",
        ),
    ),
)
NAMES = (
    *_repaired(
        "names and time",
        "base",
        ("gpu-1", "sysctl kernel.hostname (gpu-1 → evil)", "hostname evil"),
        (
            "gpu-2",
            "file /etc/hosts (as written → changed",
            "echo 203.0.113.9 head >> /etc/hosts",
        ),
        (
            "head",
            "link /etc/localtime (target ",
            "ln -sf /usr/share/zoneinfo/Asia/Tokyo /etc/localtime",
        ),
    ),
    *_undone(
        "names and time",
        (
            "head",
            S,
            "name server 203.0.113.53 is new",
            "cp /etc/resolv.conf /tmp/kept; echo nameserver 203.0.113.53 >> /etc/resolv.conf",
            "cat /tmp/kept > /etc/resolv.conf; rm /tmp/kept",
        ),
    ),
    *_file("names and time", ("gpu-1", H, "/etc/chrony/conf.d/x.conf", "local stratum 1")),
    *_edited("names and time", ("gpu-1", D, "/etc/gai.conf", "precedence ::/0 1")),
)
PACKAGES = (
    *_repaired(
        "packages",
        "base",
        ("gpu-2", "package numactl (", "dpkg --remove numactl >/dev/null"),
    ),
    *_repaired(
        "packages",
        "fabric",
        ("gpu-1", "package perftest (", OTHER.format(package="perftest", version="0~older")),
    ),
    *_repaired(
        "packages",
        "base",
        (
            "head",
            "file /etc/apt/apt.conf.d/52appliance-held (present → missing)",
            "rm /etc/apt/apt.conf.d/52appliance-held",
        ),
    ),
    *_undone(
        "packages",
        ("gpu-1", S, "package stranger is new: 1.0", STRANGER, "dpkg -P stranger >/dev/null"),
        (
            "gpu-2",
            S,
            "package bash: ",
            "echo bash hold | dpkg --set-selections",
            "echo bash install | dpkg --set-selections",
        ),
        (
            "head",
            D,
            "package file /usr/bin/nproc: as in its package then",
            "cp -a /usr/bin/nproc /tmp/nproc; cat /usr/bin/true > /usr/bin/nproc",
            "cp -a /tmp/nproc /usr/bin/nproc; rm /tmp/nproc",
        ),
    ),
    *_file(
        "packages",
        ("head", H, "/etc/apt/sources.list.d/x.list", "deb [trusted=yes] file:/x ./"),
        ("gpu-2", S, "/etc/apt/keyrings/x.asc", "x"),
        ("gpu-1", D, "/etc/apt/preferences.d/x", "Package: *"),
        ("gpu-2", D, "/etc/apt/apt.conf.d/99x", "# APT::Get::AllowUnauthenticated"),
    ),
)
ACCOUNTS = (
    *_repaired(
        "accounts",
        "base",
        (
            "head",
            f"user {ADMIN} (groups appliance-admins → groups root)",
            f"usermod -G root {ADMIN}",
        ),
        ("gpu-2", f"user {ADMIN} (gid 1000 → gid 0)", f"usermod -g root {ADMIN}"),
        (
            "gpu-1",
            f"user {ADMIN} (password locked → password set)",
            f"usermod -p '$6$x$y' {ADMIN}",
        ),
    ),
    *_undone(
        "accounts",
        (
            "gpu-1",
            S,
            "account mallory is new: uid 1501",
            "useradd -u 1501 -N -g nogroup -d /srv/mallory -m mallory",
            "userdel -rf mallory 2>/dev/null",
        ),
        (
            "gpu-2",
            H,
            "account toor ",
            "echo toor:x:0:0::/root:/bin/sh >> /etc/passwd",
            "sed -i /^toor:/d /etc/passwd",
        ),
        (
            "head",
            S,
            "account backup: ",
            "usermod -s /bin/sh backup",
            "usermod -s /usr/sbin/nologin backup",
        ),
        ("gpu-1", H, "account games ", "usermod -p '' games", "usermod -p '*' games"),
        ("gpu-2", H, "account news ", "usermod -aG sudo news", "usermod -rG sudo news"),
        ("head", S, "account root: ", "usermod -p '$6$x$y' root", "usermod -p '*' root"),
    ),
    *_file("accounts", ("gpu-2", H, "/etc/sudoers.d/x", "news ALL=(ALL) NOPASSWD: ALL")),
    *_edited(
        "accounts",
        ("head", H, "/etc/sudoers", "# 1\\nnews ALL=(ALL) ALL"),
        ("gpu-1", H, "/etc/pam.d/sshd", "auth sufficient pam_permit.so"),
        ("gpu-2", H, "/etc/security/access.conf", "+:ALL:ALL"),
        ("gpu-2", D, "/etc/login.defs", "UMASK 000"),
    ),
)
RIGHTS = (
    *_repaired(
        "rights",
        "slurm",
        (
            "gpu-2",
            "directory /etc/slurm/prolog.d (mode 0755 → mode 0777)",
            "chmod 0777 /etc/slurm/prolog.d",
        ),
    ),
    *_repaired(
        "rights",
        "observe",
        (
            "head",
            "file /etc/prometheus/prometheus.yml (mode ",
            "chmod 0666 /etc/prometheus/prometheus.yml",
        ),
    ),
    *_undone(
        "rights",
        (
            "gpu-1",
            D,
            "setuid file /usr/local/bin/rootme is new: mode 4755, of root:root",
            "cp /bin/true /usr/local/bin/rootme; chmod 4755 /usr/local/bin/rootme",
            "rm /usr/local/bin/rootme",
        ),
        (
            "gpu-2",
            D,
            "setuid file /usr/bin/chfn was removed",
            "chmod u-s /usr/bin/chfn",
            "chmod u+s /usr/bin/chfn",
        ),
        (
            "gpu-1",
            D,
            "file capability /usr/local/bin/low is new",
            "cp /bin/true /usr/local/bin/low; setcap cap_net_bind_service+ep /usr/local/bin/low",
            "rm /usr/local/bin/low",
        ),
        (
            "head",
            D,
            "file mode /etc/shadow: 0640, of root:shadow then, 0644, of root:shadow now",
            "chmod 0644 /etc/shadow",
            "chmod 0640 /etc/shadow",
        ),
        (
            "gpu-1",
            D,
            "file mode /usr/bin/nproc: as usual then, 0777, of root:root now",
            "chmod 0777 /usr/bin/nproc",
            "chmod 0755 /usr/bin/nproc",
        ),
    ),
)
STARTED = (
    *_file(
        "what is started",
        ("gpu-1", H, "/etc/cron.d/x", "* * * * * root /bin/true"),
        ("gpu-2", H, "/var/spool/cron/crontabs/root", "# x"),
        ("head", H, "/etc/cron.daily/x", "#!/bin/sh"),
        ("gpu-1", H, "/var/spool/cron/atjobs/a0000101", "#!/bin/sh"),
        ("gpu-2", D, "/etc/profile.d/x.sh", "true"),
        ("gpu-1", D, "/etc/logrotate.d/x", "# x"),
        ("head", D, "/etc/update-motd.d/99-x", "#!/bin/sh"),
        ("gpu-1", H, "/etc/ld.so.preload", ""),
        ("gpu-2", D, "/etc/ld.so.conf.d/0.conf", "/tmp"),
        ("gpu-1", D, "/etc/tmpfiles.d/x.conf", "# f /etc/evil"),
        ("gpu-2", D, "/usr/local/lib/python3.11/dist-packages/x.pth", "import os"),
    ),
    *_undone(
        "what is started",
        (
            "head",
            D,
            "program /usr/local/bin/srun is new: content ",
            "cp /bin/true /usr/local/bin/srun",
            "rm /usr/local/bin/srun",
        ),
        (
            "gpu-2",
            D,
            "configuration file /root/.bashrc: ",
            "cp -a /root/.bashrc /root/.bashrc.dpkg-old; echo evil >> /root/.bashrc",
            "mv /root/.bashrc.dpkg-old /root/.bashrc",
        ),
    ),
)
SOCKETS = _undone(
    "sockets",
    (
        "gpu-1",
        S,
        "socket tcp 4444 is new: python3",
        "systemd-run -q --unit=back python3 -m http.server 4444",
        "systemctl stop back",
    ),
    (
        "head",
        S,
        "socket udp 4445 is new: python3",
        "systemd-run -q --unit=back python3 -c 'import socket,time; s=socket.socket(2,2);"
        ' s.bind(("",4445)); time.sleep(9999)\'',
        "systemctl stop back",
    ),
)
SERVICES = (
    *_file("services", ("head", H, "/etc/prometheus/rules/x.yml", "groups: []")),
    *_repaired(
        "services",
        "fabric",
        (
            "head",
            "file /etc/opensm/opensm.conf (as written → changed",
            "echo '# by hand' >> /etc/opensm/opensm.conf",
        ),
    ),
    *_repaired(
        "services",
        "storage",
        (
            "head",
            "file /etc/ganesha/ganesha.conf (owner root → owner daemon)",
            "chown daemon /etc/ganesha/ganesha.conf",
        ),
    ),
    *_edited("services", ("gpu-2", D, "/etc/nsswitch.conf", "# hosts: evil")),
    # The last of its host: enabling and masking have systemd read all anew.
    *_repaired(
        "services",
        "observe",
        (
            "gpu-2",
            f"unit file {EXPORTER}.service (loaded → changed on disk",
            f"sleep 1.1; touch /usr/lib/systemd/system/{EXPORTER}.service",
        ),
    ),
)
FROM_PID_1 = "$(awk '/^Cpus_allowed_list/ {print $2}' /proc/1/status)"
AS_SLURM = "setpriv --reuid slurm --regid slurm --clear-groups strigger"
# user::rw-, user:news:r--, group::r--, mask::r--, other::r-- (linux/posix_acl_xattr.h)
ACL = "0200000001000600ffffffff020004000900000004000400ffffffff10000400ffffffff20000400ffffffff"
XATTR = "python3 -c \"import os; os.{}xattr('/etc/adduser.conf', 'system.posix_acl_access'{})\""
NOW = _undone(
    "what is in force",
    (
        "gpu-1",
        S,
        "service variable LD_LIBRARY_PATH is new",
        "systemctl set-environment LD_LIBRARY_PATH=/tmp/none",
        "systemctl unset-environment LD_LIBRARY_PATH",
    ),
    # Those of the sockets above.
    ("gpu-1", S, "transient unit back.service is new", ":", ""),
    ("head", S, "transient unit back.service is new", ":", ""),
    (
        "gpu-2",
        H,
        "/run/systemd/system.control/system.slice.d/50-CPUQuota.conf ",
        "systemctl set-property --runtime system.slice CPUQuota=9000%",
        "systemctl set-property --runtime system.slice CPUQuota=; rm -r /run/systemd/system.control/system.slice.d",
    ),
    (
        "gpu-1",
        S,
        "daemon slurmd.service: ",
        "taskset -apc 0 $(pgrep -o slurmd)",
        f"taskset -apc {FROM_PID_1} $(pgrep -o slurmd)",
    ),
    (
        "head",
        S,
        "daemon munge.service: ",
        "renice -n 9 -p $(pgrep -o munged)",
        "renice -n 0 -p $(pgrep -o munged)",
    ),
    (
        "gpu-1",
        S,
        "daemon nvidia-persistenced.service: ",
        "systemctl freeze nvidia-persistenced",
        "systemctl thaw nvidia-persistenced",
    ),
    (
        "gpu-2",
        S,
        ": tmpfs of hide",
        "mount -t tmpfs hide /proc/$(systemctl show -P MainPID nvidia-persistenced)",
        "umount /proc/$(systemctl show -P MainPID nvidia-persistenced)",
    ),
    ("gpu-2", S, "daemon nvidia-persistenced.service: ", ":", ""),
    (
        "gpu-2",
        S,
        "root process /var/tmp/evil is new",
        "cp /usr/bin/sleep /var/tmp/evil; setsid /var/tmp/evil 9999 >/dev/null 2>&1 </dev/null & sleep 1",
        "kill $(pidof /var/tmp/evil); rm /var/tmp/evil",
    ),
    (
        "head",
        S,
        "Slurm trigger /bin/false is new",
        f"{AS_SLURM} --set --node --down --program=/bin/false",
        f"{AS_SLURM} --clear --id=$(strigger --get --noheader | awk '{{print $1; exit}}')",
    ),
    (
        "gpu-2",
        S,
        "export /etc to 203.0.113.9 is new: rw,no_root_squash",
        "mkdir -p /var/lib/nfs; printf '/etc\\t203.0.113.9(rw,no_root_squash)\\n' >> /var/lib/nfs/etab",
        "sed -i /203.0.113.9/d /var/lib/nfs/etab",
    ),
    (
        "gpu-1",
        S,
        "kernel parameter net.ipv4.icmp_echo_ignore_all: 0 then, 1 now",
        "echo 1 > /proc/sys/net/ipv4/icmp_echo_ignore_all",
        "echo 0 > /proc/sys/net/ipv4/icmp_echo_ignore_all",
    ),
)
NETWORK = _undone(
    "network",
    (
        "gpu-2",
        S,
        "route blackhole 203.0.113.0/24 is new: IPv4",
        "ip route add blackhole 203.0.113.0/24",
        "ip route del blackhole 203.0.113.0/24",
    ),
    (
        "gpu-2",
        S,
        "routing rule 100: from 198.51.100.7 lookup main is new",
        "ip rule add from 198.51.100.7 lookup main priority 100",
        "ip rule del priority 100",
    ),
    (
        "head",
        S,
        "address 198.51.100.9/24 is new: on lo",
        "ip address add 198.51.100.9/24 dev lo",
        "ip address del 198.51.100.9/24 dev lo",
    ),
    (
        "gpu-1",
        S,
        "traffic control pfifo on lo is new",
        "tc qdisc add dev lo root pfifo limit 7",
        "tc qdisc del dev lo root",
    ),
)
TRUST = (
    *_file(
        "trust",
        ("gpu-2", D, "/usr/local/share/ca-certificates/x.crt", "x"),
        ("gpu-2", D, "/usr/lib/systemd/system/dbus.service.d/y.conf", TRUE),
        ("gpu-1", D, "/usr/lib/udev/rules.d/99-x.rules", 'RUN+="/tmp/evil"'),
        ("gpu-1", D, "/root/.config/systemd/user/x.service", UNIT),
        ("gpu-2", H, "/var/lib/systemd/linger/games", ""),
    ),
    *_undone(
        "trust",
        (
            "head",
            D,
            "configuration file /etc/ssl/certs/ca-certificates.crt: content ",
            "cp -a /etc/ssl/certs/ca-certificates.crt /tmp/kept.crt; echo x >> /etc/ssl/certs/ca-certificates.crt",
            "cat /tmp/kept.crt > /etc/ssl/certs/ca-certificates.crt; rm /tmp/kept.crt",
        ),
        (
            "gpu-1",
            D,
            "program link /usr/local/bin/scancel is new: to /tmp/evil",
            "ln -s /tmp/evil /usr/local/bin/scancel",
            "rm /usr/local/bin/scancel",
        ),
        (
            "gpu-2",
            D,
            "program link /etc/alternatives/pager: to ",
            "cp -a /etc/alternatives/pager /tmp/kept.pager; ln -sfn /tmp/evil /etc/alternatives/pager",
            "cp -a --remove-destination /tmp/kept.pager /etc/alternatives/pager; rm /tmp/kept.pager",
        ),
        (
            "head",
            D,
            "package record bash: ",
            "echo /usr/local/sbin >> /var/lib/dpkg/info/bash.list",
            "sed -i '/local.sbin$/d' /var/lib/dpkg/info/bash.list",
        ),
        (
            "gpu-1",
            D,
            "configuration file /var/lib/dpkg/statoverride: content ",
            "cp -a /var/lib/dpkg/statoverride /tmp/kept.so; echo 'root root 4755 /usr/bin/nproc' >> /var/lib/dpkg/statoverride",
            "cat /tmp/kept.so > /var/lib/dpkg/statoverride; rm /tmp/kept.so",
        ),
        (
            "gpu-2",
            D,
            "access list /etc/adduser.conf is new: user news r--",
            XATTR.format("set", f", bytes.fromhex('{ACL}')"),
            XATTR.format("remove", ""),
        ),
        (
            "gpu-1",
            D,
            "file attribute /etc/deluser.conf is new: immutable",
            "chattr +i /etc/deluser.conf",
            "chattr -i /etc/deluser.conf",
        ),
        (
            "gpu-1",
            D,
            f"file mode /home/{ADMIN}/.bashrc: as usual then, 0644, of daemon:",
            f"chown daemon /home/{ADMIN}/.bashrc",
            f"chown {ADMIN} /home/{ADMIN}/.bashrc",
        ),
        (
            "gpu-2",
            S,
            "account games: ",
            "echo games:0:65536 >> /etc/subuid",
            "sed -i /^games:/d /etc/subuid",
        ),
        (
            "head",
            S,
            "account group shadow is new: password set",
            "sed -i 's/^shadow:[^:]*:/shadow:$6$x$y:/' /etc/gshadow",
            "sed -i 's/^shadow:[^:]*:/shadow:*:/' /etc/gshadow",
        ),
    ),
)
CHANGES = (
    *(*FIREWALL, *SSH, *KEYS, *KERNEL, *UNITS, *MOUNTS, *SLURM, *NAMES, *PACKAGES, *ACCOUNTS),
    *(*RIGHTS, *STARTED, *SOCKETS, *NOW, *NETWORK, *TRUST, *SERVICES),
)
UPDATE = """set -e
for package in javascript-common keyutils libaio1 numactl; do
  cd "$(mktemp -d)"; dpkg-deb -R /var/cache/apt/archives/${package}_*.deb tree
  sed -i 's/^Version: .*/&+deb12u9/' tree/DEBIAN/control
  for file in tree/etc/request-key.conf; do test ! -f $file || echo '# new' >> $file; done
  test ! -f tree/bin/keyctl || echo >> tree/bin/keyctl
  (cd tree; find bin sbin usr -type f -exec md5sum {} + 2>/dev/null > DEBIAN/md5sums || true)
  dpkg-deb -b tree later.deb >/dev/null; dpkg -i later.deb >/dev/null
done
"""
"""Packages of the same content with another version, program and file of /etc, as a point release brings them; numactl is a stage's."""
