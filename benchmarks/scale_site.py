"""Sites of any number of hosts, and what their hosts answer: recorded facts of a rack, with each host's own name and numbers."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from appliance.actions.sites.opening import Target, open_session
from appliance.adapters.process import run
from appliance.cli.options import quiet
from appliance.engine.plan.prepare import Preparation, prepare
from appliance.engine.session import Session
from appliance.models.facts import HostFacts, Receipt
from appliance.stages.catalog import STAGES
from benchmarks.fabric_netlist import PER_LEAF, SPINES, Fabric

RECORDED = Path(__file__).parents[1] / "tests/data/golden/facts"
PROFILE = Path(__file__).parents[1] / "profiles/hpc.yml"
MOST_OF_HPC = "maximum: 128"
PER_NETWORK = 250
HEAD = "head"
ANSWERS = "answers"
SECRET = "k" * 64


def address(number: int, *, dead: bool = False) -> str:
    """Of one host; nothing listens on those that are ``dead``."""
    return f"10.{98 if dead else 99}.{number // PER_NETWORK}.{number % PER_NETWORK + 1}"


def write_keys(folder: Path) -> None:
    """The key that is let in (``id``) and the one all hosts show (``host_key``)."""
    folder.mkdir(parents=True)
    for name in ("id", "host_key"):
        run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)))


def write_site(folder: Path, keys: Path, hosts: int, dead: Iterable[int] = ()) -> None:
    """A site of one control host and ``hosts - 1`` GPU hosts of class hpc; beyond its 128, of a copy with a higher bound."""
    folder.mkdir(parents=True)
    gone = set(dead)
    text = PROFILE.read_text()
    bound = f"maximum: {max(128, hosts - 1)}"
    (folder / "profile.yml").write_text(text.replace(MOST_OF_HPC, bound))
    lines = [f"  - {{name: {HEAD}, roles: [control, storage, login], address: {address(0)}}}"]
    for n in range(1, hosts):
        at = address(n, dead=n in gone)
        lines.append(f"  - {{name: gpu-{n - 1}, roles: [gpu], address: {at}}}")
    (folder / "site.yml").write_text(
        f"version: 1\nname: scale\nprofile: {folder / 'profile.yml'}\n"
        "networks:\n  management: {cidr: 10.98.0.0/15}\n"
        f"access: {{private_key: {keys / 'id'}, known_hosts: known_hosts}}\n"
        "secrets:\n  munge_key: {file: secret}\n  slurmdbd_password: {file: secret}\n"
        "hosts:\n" + "\n".join(lines) + "\n"
    )
    (folder / "secret").touch(mode=0o600)
    (folder / "secret").write_text(SECRET)
    shown = (keys / "host_key.pub").read_text()
    known = (f"{address(n)} {shown}" for n in range(hosts))
    (folder / "known_hosts").write_text("".join(known))


def write_answers(folder: Path) -> None:
    """What each host of the site answers, deployed and well, as ``answers/ADDRESS``."""
    (folder / ANSWERS).mkdir()
    with open_session(Target(folder), "benchmark", quiet()) as session:
        for host, answer in deployed(session).items():
            at = session.site.host(host).address
            (folder / ANSWERS / str(at)).write_text(json.dumps(answer))


def answered(session: Session) -> dict[str, HostFacts]:
    """The facts of all hosts of a site whose answers are written, read as the program reads an answer."""
    return {
        host.name: HostFacts.model_validate(
            json.loads((session.folder / ANSWERS / str(host.address)).read_text())
        )
        for host in session.site.hosts
    }


def deployed(session: Session) -> dict[str, dict[str, Any]]:
    """What each host of the site answers after a deployment, by name."""
    answers = _recorded(session)
    facts = {name: HostFacts.model_validate(answer) for name, answer in answers.items()}
    stages = tuple(stage for stage in STAGES if stage.wanted(session.site))
    receipts = _receipts(prepare(session, facts, stages))
    return {
        name: answer | {"receipts": receipts[name], "foreign": [], "sysctl_at_boot": {}}
        for name, answer in answers.items()
    }


def _recorded(session: Session) -> dict[str, dict[str, Any]]:
    control, gpu = ((RECORDED / f"{kind}.json").read_text() for kind in ("control", "gpu"))
    answers: dict[str, dict[str, Any]] = {}
    for number, host in enumerate(session.site.hosts):
        text = gpu.replace("gpu-1", host.name) if number else control
        answer = json.loads(text)
        answer["host"] = answer["os"]["hostname"] = host.name
        answer["os"]["boot_id"] = f"8348531e-9a65-4e46-95e1-{number:012x}"
        answer["interfaces"][0]["addresses"] = [f"{host.address}/15"]
        for device in (answer.get("gpus") or {"devices": ()})["devices"]:
            device["serial"] = f"{number:05}{device['index']:08}"
            device["uuid"] = f"GPU-07f07018-6f39-b7d2-af59-{number:06x}{device['index']:06x}"
        for index, port in enumerate(answer["ports"]):
            port["guid"] = f"0x0c42a103{number:06x}{index:02x}"
        answers[host.name] = answer
    _widen(answers[HEAD], [name for name in answers if name != HEAD])
    return answers


def _widen(head: dict[str, Any], names: list[str]) -> None:
    """The control host knows all hosts: as Slurm's nodes, in the fabric, and as what Prometheus scrapes."""
    node = head["slurm"]["nodes"][0]
    head["slurm"]["nodes"] = [{**node, "name": name} for name in names]
    own = [target for target in head["observe"]["targets"] if target["instance"] == HEAD]
    head["observe"]["targets"] = own + [{**own[0], "instance": name} for name in names]
    head["topology"] = _topology(Fabric(len(names)))


def _topology(fabric: Fabric) -> dict[str, Any]:
    spines = [f"spine-{n}" for n in range(1, SPINES + 1)]
    cables = list(fabric.cables())
    adapters = [lower for (lower, _), _ in cables if " " in lower]
    return {
        "switches": [
            {"description": name, "guid": f"0x0c42a104{number:08x}", "ports": 2 * PER_LEAF}
            for number, name in enumerate((*fabric.leaves, *spines))
        ],
        "hcas": [
            {"description": name, "guid": f"0x0c42a105{number:08x}", "ports": 1}
            for number, name in enumerate(adapters)
        ],
        "links": [
            {
                "node": upper,
                "port": port,
                "peer": lower,
                "peer_port": lower_port,
                "speed": "HDR",
                "width": "4x",
            }
            for (lower, lower_port), (upper, port) in cables
        ],
    }


def _receipts(prepared: Preparation) -> dict[str, dict[str, Any]]:
    """By host and stage, as though all stages had been deployed."""
    receipts: dict[str, dict[str, Any]] = {}
    for (stage, host), one in prepared.items():
        receipt = Receipt(
            stage=stage,
            fingerprint=one.fingerprint,
            inputs=one.inputs,
            written="2026-11-23T14:17:41+00:00",
            run="r0",
            appliance="0.1.0",
            resources=1,
        )
        receipts.setdefault(host, {})[stage] = receipt.model_dump(mode="json")
    return receipts
