"""A site that uses every section there is, its hosts' facts, and the same with payloads wherever a text is taken."""

import copy
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from appliance.config.document import read
from appliance.config.secrets import Secret
from appliance.errors import ApplianceError
from appliance.models import fact_types
from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.catalog import STAGES
from appliance.stages.context import RoleContext, Variables
from tests.support.planted_trees import planted

Document = dict[str, Any]
PROFILE = Path(__file__).parents[2] / "profiles/hpc.yml"
KEY = b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0 " + bytes(range(32))).decode()
DIGEST = "0" * 64

SITE: Document = {
    "version": 1,
    "name": "acme",
    "profile": "hpc",
    "access": {"user": "root", "private_key": "id", "known_hosts": "known_hosts"},
    "networks": {
        "management": {
            "cidr": "10.0.0.0/24",
            "gateway": "10.0.0.1",
            "dns": ["10.0.0.2"],
            "dhcp": ["10.0.0.2"],
        },
        "storage": {"cidr": "10.0.8.0/24", "mtu": 9000},
        "ipoib": {"cidr": "10.0.9.0/24"},
    },
    "hosts": [
        {
            "name": name,
            "roles": roles,
            "address": f"10.0.0.{number}",
            "mac": f"52:54:00:00:00:{number}",
            "addresses": {"storage": f"10.0.8.{number}", "ipoib": f"10.0.9.{number}"},
            "bmc": {"address": f"10.0.16.{number}", "user": "admin", "password": {"env": "BMC"}},
            "disk": {"serial": "S1X2Y3"},
            **({"owner": "slurm"} if "gpu" in roles else {}),
        }
        for name, roles, number in (
            ("head", ["control", "storage", "login"], 10),
            ("gpu-1", ["gpu"], 11),
            ("gpu-2", ["gpu"], 12),
        )
    ],
    "secrets": {"munge_key": {"file": "munge"}, "slurmdbd_password": {"vault": "secrets#db"}},
    "provision": {"image": "images/debian-12", "signers": "signers", "disk": {"model": "MAKER X1"}},
    "base": {
        "timezone": "Europe/Berlin",
        "keep": ["/etc/cron.d/*", "account ops"],
        "banner": ["For staff alone."],
        "strict": True,
        "advisories": [
            {
                "of": "runc",
                "system": "rhel-9",
                "fixed": ["1.2.5-2"],
                "source": "an archive",
                "looked": "2026-11-20",
            }
        ],
        "logs": {"to": "logs.example.org"},
        "ntp_servers": ["ntp.example.org"],
        "admins": [{"name": "ada", "keys": [f"ssh-ed25519 {KEY} ada"]}],
        "users": [
            {
                "name": "eve",
                "uid": 2001,
                "groups": ["vision"],
                "keys": [f"ssh-ed25519 {KEY} eve"],
                "shell": "/bin/sh",
            }
        ],
        "groups": [{"name": "vision", "gid": 3001}],
        "homes": "/data/home",
        "mirror": "http://mirror.example/debian",
        "security_mirror": "http://mirror.example/security",
    },
    "repositories": {
        "gpu": {"mirror": "http://mirror.example/gpu", "key": "key.asc", "fingerprint": "A" * 40},
        "doca": {"mirror": "http://mirror.example/doca", "fingerprint": "A" * 40},
        **{
            name: {
                "mirror": f"http://mirror.example/{name}",
                "key": "key.asc",
                "fingerprint": "A" * 40,
            }
            for name in ("containerd", "kubernetes")
        },
        "helm": {"url": "http://mirror.example/helm.tar.gz", "sha256": DIGEST},
        "bundle": "http://mirror.example/bundle",
    },
    "gpu": {},
    "mig": {
        "layout": "mine",
        "layouts": {"mine": "3g.40gb, 2 x 1g.10gb"},
        "hosts": {"gpu-2": {"layout": "mine", "gpus": {"0-3": "mine"}}},
    },
    "fabric": {
        "driver": "doca",
        "partitions": [{"name": "team", "pkey": 5, "hosts": ["gpu-1", "gpu-2"]}],
        "ipoib": {"network": "ipoib", "device": "mlx5_0", "partition": "team"},
        "roce": {"devices": ["mlx5_0"], "mtu": 4200},
        "firmware_minimum": ["20.43.8002"],
        "cabling": "listed",
        "cables": [{"host": "gpu-1", "hca": "mlx5_0", "switch": "leaf-1", "port": 1}],
        "trunks": [{"switch": "leaf-1", "peer": "spine-1"}],
        "standby": ["gpu-1"],
    },
    "storage": {
        "exports": [{"path": "/srv/data", "clients": ["10.0.0.0/24"]}],
        "external": [{"server": "filer.example.org", "path": "/vol"}],
        "mounts": [{"export": "/srv/data", "at": "/data"}, {"export": "/vol", "at": "/vol"}],
        "scratch": {"at": "/scratch", "devices": ["/dev/nvme1n1"]},
    },
    "slurm": {
        "cluster": "acme",
        "partitions": [{"name": "gpus", "default": True, "max_time": "2-00:00:00"}],
        "accounts": [{"name": "team", "users": ["ada"]}],
        "containers": {
            "enroot": [{"file": "enroot.deb", "sha256": DIGEST}],
            "pyxis": {"file": "pyxis.tar.gz", "sha256": DIGEST},
            "at": "/scratch/enroot",
            "benchmark": {"image": "nvcr.io#nvidia/nemo:1", "mounts": ["/data:/data"]},
        },
    },
    "observe": {
        "retention_days": 30,
        "open_to": ["192.0.2.9/32"],
        "receivers": [
            {"name": "oncall", "email": "oncall@example.com"},
            {"name": "chat", "slack": {"file": "secrets/munge_key"}, "severity": "critical"},
        ],
        "mail": {"server": "mail.example.com", "sender": "appliance@example.com", "tls": True},
    },
    "kubernetes": {
        "version": "1.35",
        "containerd": "2.3",
        "network_version": "v3.32.1",
        "address": "10.0.0.100",
        "address_image": f"mirror/kube-vip:v1.0.0@sha256:{DIGEST}",
        "trial_image": "mirror/busybox:1",
        "source": "/srv/offline",
        "source_parts": ["images", "charts", "manifests"],
        "registry_mirrors": {"docker.io": "http://mirror.example/docker"},
        "oidc": [
            {
                "issuer": "https://sso.example.com/realms/hpc",
                "client_id": "kubernetes",
                "username": "sub",
                "groups": "roles",
                "prefix": "sso:",
                "ca": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
            }
        ],
        "kubelet": {},
        "etcd_backup": {"at": "/var/backups/etcd"},
    },
    "scheduler": {
        "kind": "kai",
        "node_pools": [{"name": "big", "hosts": ["gpu-2"], "mig_on_demand": ["1g.10gb"]}],
        "departments": [{"name": "all", "shares": [{"pool": "big", "gpu": {"quota": 1}}]}],
        "projects": [
            {
                "name": "team",
                "department": "all",
                "queues": [{"name": "train", "priority_class": "urgent", "time_limit": "8h"}],
                "shares": [{"pool": "big", "gpu": {"quota": 1}}],
                "users": ["ada"],
                "groups": ["all"],
                "reached_from": ["ingress"],
                "storage": "10Ti",
                "trees": [{"name": "data", "export": "/srv/data", "path": "team"}],
            }
        ],
        "priorities": [{"name": "urgent", "value": 60}],
        "topology": {"source": "labels", "levels": ["example.org/rack"]},
    },
    "workloads": {
        "images": {"notebook": "mirror/notebook:1", "vllm": "mirror/vllm:1"},
        "nfs_csi": {"export": "/srv/data"},
        "local_path": {"path": "/scratch/local"},
        "metrics_server": {},
        "jobset": {"version": "0.10.1", "sha256": DIGEST, "reached_from": ["ingress"]},
        "mlflow": {"storage_class": "nfs"},
        "jupyter": {
            "authenticator": "generic-oauth",
            "config": {"GenericOAuthenticator": {"oauth_callback_url": "https://h", "l": ["x"]}},
            "client_secret": "login",
            "storage_class": "nfs",
        },
        "vllm": {"export": "/srv/data", "models": [{"name": "m", "path": "m"}]},
    },
    "backup": {
        "target": "ssh://store@192.0.2.7/srv/backup",
        "host_key": "ssh-ed25519 " + 68 * "A",
        "recipient": "age1" + 58 * "q",
        "every": "15m",
        "keep": "14d",
    },
    "notify": {"url": {"file": "secrets/notify"}, "token": {"env": "TOKEN"}},
    "software": {"containerd": "2.3"},
    "limits": {"base.clock": {"value": 1, "unit": "s", "source": "contract", "date": "2026"}},
    "simulated": ["gpu", "fabric"],
}
SECRETS = {
    "munge_key": Secret("A" * 64),
    "slurmdbd_password": Secret("B" * 32),
    "receiver.chat": Secret("https://hooks.example.com/T0"),
    "backup_ssh_key": Secret("A" * 64),
    "kubernetes_encryption_key": Secret("A" * 43 + "="),
}

SAMPLES: Mapping[Any, str] = {
    fact_types.GpuUuid: "GPU-5c89d2e8",
    fact_types.BusId: "0000:07:00.0",
    fact_types.Guid: "0x0c42a10300010001",
    fact_types.MigProfile: "3g.40gb",
    fact_types.DeviceFile: "/dev/nvidia-caps/nvidia-cap21",
    fact_types.DeviceName: "mlx5_0",
    fact_types.InterfaceName: "eno1",
    fact_types.NodeName: "gpu-1",
    fact_types.PackageName: "slurmd",
    fact_types.PackageVersion: "1.2-3",
    fact_types.Route: "10.0.0.0/24 eno1",
    fact_types.Stamp: "2026-11-29T12:00:00+00:00",
    fact_types.UnitName: "slurmd.service",
    fact_types.SysctlKey: "kernel.panic",
}
PATTERNS = {kind.__metadata__[0].metadata[0].pattern: text for kind, text in SAMPLES.items()}
PARTS = frozenset({"link_layer", "addresses", "container", "network", "partition"})
"""By these texts a kind is told, or another part named: with others less would be made of the document."""

Step = str | int
Place = tuple[Step, ...]
Fits = Callable[[Document], bool]


def facts(host: str, address: str) -> Document:
    """Every fact there is, as a sound host answers it."""
    found: Document = planted(HostFacts, "x", PATTERNS.__getitem__)
    found |= {"version": 1, "host": host, "simulated": []}
    found["os"] |= {"id": "debian", "version_id": "12", "kernel": "6.1.0", "container": ""}
    found["cpu"] |= {"sockets": 2, "cores": 96, "threads": 192}
    found["memory"] |= {"total": 1 << 40}
    found["interfaces"][0] |= {"addresses": [f"{address}/24"]}
    port = found["ports"][0] | {"link_layer": "InfiniBand"}
    found["ports"] = [{**port, "device": f"mlx5_{i}", "guid": f"0x{i + 1}"} for i in range(2)]
    found["kubernetes"]["version"] = "v1.35.0"
    gpu = found["gpus"]["devices"][0]
    instance = {**gpu["mig"][0], "size": 4, "start": 0}
    found["gpus"]["devices"] = [{**gpu, "index": i, "mig": [instance]} for i in range(2)]
    return found


def contexts(site: Site, profile: Profile, known: Mapping[str, HostFacts]) -> list[RoleContext]:
    """What the variables of each host are made from."""
    return [RoleContext(profile, site, host, SECRETS, known) for host in site.hosts]


def variables(site: Site, profile: Profile, known: Mapping[str, HostFacts]) -> dict[str, Variables]:
    """The variables of all stages by host."""
    return {
        context.host.name: {k: v for stage in STAGES for k, v in stage.variables(context).items()}
        for context in contexts(site, profile, known)
    }


def payloads(made: Path) -> tuple[str, ...]:
    """Forms of one command; a text takes the first that its model does."""
    ran = f"touch {made}"
    return (
        f"{{{{ lookup('pipe', '{ran}') }}}}{{% set x = lookup('pipe', '{ran}') %}}$({ran})`{ran}`; {ran}\n{ran}",
        f"{{{{ lookup('pipe', '{ran}') }}}}$({ran})",
        f"{{{{lookup('pipe','touch${{IFS}}{made}')}}}}",
        f"$({ran})",
        f"\n{ran}",
    )


def spread(
    model: type[BaseModel], document: Document, payloads: tuple[str, ...], fits: Fits
) -> tuple[Document, list[Place]]:
    """The document with a payload in every text the model takes and ``fits`` allows, and where these are.

    A text that wants to be of some form gets the payload behind what it was.
    """
    wanted: list[tuple[Place, str]] = []
    for place in _places(document):
        old = str(place[-1]) if place[-2:-1] == ("",) else str(_at(document, place))
        texts = (*payloads, f"{old} {payloads[0]}", *(old + p for p in payloads[1:]))
        found = next((x for x in texts if _accepts(model, _with(document, [(place, x)]))), None)
        if found is not None:
            wanted.append((place, found))
    return _settled(model, document, wanted, fits)


def exaggerated(model: type[BaseModel], document: Document) -> tuple[Document, list[Place]]:
    """The document with another value in every number the model takes one for, and where these are."""
    wanted: list[tuple[Place, Any]] = []
    for place in _numbers(document):
        old = _at(document, place)
        values = (not old,) if isinstance(old, bool) else (old * 1000 + 7, old * 2 + 1, 0)
        found = next((x for x in values if _accepts(model, _with(document, [(place, x)]))), None)
        if found is not None:
            wanted.append((place, found))
    return _settled(model, document, wanted, lambda _: True)


def _numbers(data: Any, at: Place = ()) -> Iterator[Place]:
    if isinstance(data, dict | list):
        steps = data.items() if isinstance(data, dict) else enumerate(data)
        for step, value in steps:
            yield from _numbers(value, (*at, step))
    elif isinstance(data, int | float) and at != ("version",):
        yield at


def _settled(
    model: type[BaseModel], document: Document, wanted: list[tuple[Place, Any]], fits: Fits
) -> tuple[Document, list[Place]]:
    """As many at once as go together; by halves where some do not."""
    trial = _with(document, wanted)
    if _accepts(model, trial) and fits(trial):
        return trial, [place for place, _ in wanted]
    if len(wanted) < 2:
        return document, []
    half = len(wanted) // 2
    document, first = _settled(model, document, wanted[:half], fits)
    document, second = _settled(model, document, wanted[half:], fits)
    return document, first + second


def _accepts(model: type[BaseModel], document: Document) -> bool:
    try:
        model.model_validate(document)
    except ValidationError:
        return False
    return True


def _places(data: Any, at: Place = ()) -> Iterator[Place]:
    """Texts, deepest first; the key of a mapping is told by "" before it."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key in PARTS:
                continue
            yield from _places(value, (*at, key))
            yield (*at, "", key)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _places(value, (*at, index))
    elif isinstance(data, str):
        yield at


def _at(data: Any, place: Place) -> Any:
    for step in place:
        data = data[step]
    return data


def _with(document: Document, wanted: list[tuple[Place, Any]]) -> Document:
    changed = copy.deepcopy(document)
    for place, text in wanted:
        if place[-2:-1] == ("",):
            holder = _at(changed, place[:-2])
            pairs = [(text if key == place[-1] else key, value) for key, value in holder.items()]
            holder.clear()
            holder.update(pairs)
        else:
            _at(changed, place[:-1])[place[-1]] = text
    return changed


def can_be_deployed(
    site: Document, profile: Document, known: Mapping[str, HostFacts]
) -> dict[str, Variables] | None:
    """The variables, or None where they are refused when they are made."""
    try:
        return variables(Site.model_validate(site), Profile.model_validate(profile), known)
    except (ApplianceError, KeyError, ValueError):
        return None


def profile() -> Document:
    """The profile of the class with most parts."""
    data: Any = read(PROFILE).data
    data["stages"] |= {"sysctl": {"vm.swappiness": "1"}, "mig": "all-balanced"}
    data["servers"] = [
        {"model": "DGX*", "bios": {"BootMode": "Uefi"}, "firmware": {"BIOS": "1.21"}}
    ]
    data["software"]["doca_ofed"] = "3.2.0"
    return dict(data)
