"""One host that lies changes nothing for the others: neither on a site that was accepted, nor at its first deployment."""

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from appliance.config.secrets import Secret
from appliance.engine.look.fact_history import store_facts
from appliance.engine.look.gather import Round
from appliance.engine.look.shared_baseline import (
    ACCEPTED,
    accepted_facts,
    record_accepted,
    shared_facts_of,
)
from appliance.engine.look.shared_facts import shareable_facts
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.models.run import StageOutcome, StageState
from appliance.models.site import Site
from appliance.stages.catalog import STAGES
from appliance.stages.context import Shared
from appliance.stages.kubernetes.variables import SECRET
from tests.support.deployed_site import deployed
from tests.support.engine_fakes import receipt_of
from tests.support.fabric_cables import Fabric
from tests.support.facts import facts_of

GPU_HOSTS = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
LIAR = "gpu-4"
GIB = 1 << 30
MODEL = "NVIDIA A100-SXM4-80GB"
OTHER_MODEL = "NVIDIA H100 80GB HBM3"
FABRIC = Fabric(4, words="gpu-{host} mlx5_{rail}")
DCGM = "nvidia-dcgm-exporter.service"
READ = tuple(s for s in STAGES if s.name in {"slurm", "fabric", "observe", "base", "kubernetes"})
"""Stages with variables of more than their own host."""
Lie = tuple[str, dict[str, Any]]


@pytest.fixture
def site(session: Session) -> Session:
    """An InfiniBand site with a partition, whose hosts are not deployed yet."""
    made = Site.model_validate(
        {
            "version": 1,
            "name": "acme",
            "networks": {"management": {"cidr": "10.1.0.0/24"}},
            "fabric": {
                "subnet_manager": "opensm",
                "partitions": [{"name": "team", "pkey": 2, "hosts": list(GPU_HOSTS)}],
            },
            "base": {"users": [{"name": "ada", "uid": 2001, "keys": [KEY]}]},
            "hosts": [
                {"name": "head", "roles": ["control", "login"], "address": "10.1.0.10"},
                *(
                    {"name": name, "roles": ["gpu"], "address": f"10.1.0.1{n}"}
                    for n, name in enumerate(GPU_HOSTS, 1)
                ),
            ],
        }
    )
    secrets = {**session.secrets, "munge_key": Secret("m" * 40), SECRET: Secret("A" * 43 + "=")}
    return replace(session, site=made, secrets=secrets)


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me"


def truth(name: str) -> dict[str, Any]:
    """What an honest host says."""
    if name == "head":
        return facts_of("head", topology=FABRIC.topology()).model_dump(mode="json")
    number = GPU_HOSTS.index(name)
    devices = [
        {"index": i, "uuid": f"GPU-{number}-{i}", "name": MODEL, "bus_id": f"0{i}", "memory": 80}
        for i in range(8)
    ]
    ports = [
        {
            **{"device": f"mlx5_{n}", "port": 1, "state": "ACTIVE", "physical": "LinkUp"},
            **{"rate": 200, "link_layer": "InfiniBand", "guid": f"0c42:a103:000{number}:000{n}"},
        }
        for n in range(8)
    ]
    return facts_of(
        name,
        memory={"total": 1000 * GIB, "available": 900 * GIB},
        gpus={"driver": "580", "nvml": "12", "devices": devices},
        ports=ports,
        receipts={"slurm": receipt_of("slurm", "f")},
        units={DCGM: {"load": "loaded", "active": "active"}},
        interfaces=[{"name": "eth0", "mac": "02:00:00:00:00:01", "mtu": 1500, "state": "up"}],
        disks=[{"name": "sda", "size": 10**12, "serial": "S1"}],
    ).model_dump(mode="json")


TRUTH = {name: truth(name) for name in ("head", *GPU_HOSTS)}


def facts(lie: Mapping[str, Any] | None = None) -> dict[str, HostFacts]:
    told = TRUTH if lie is None else {**TRUTH, LIAR: lie}
    return {name: HostFacts.model_validate(said) for name, said in told.items()}


def merged(where: str, **what: Any) -> dict[str, Any]:
    said = copy.deepcopy(TRUTH[LIAR])
    said[where] = {**said[where], **what}
    return said


def instance(profile: str, parts: int = 1) -> dict[str, Any]:
    each = [
        {"id": n, "slices": 1, "uuid": f"MIG-{n}", "nodes": ["/etc/shadow"]} for n in range(parts)
    ]
    return {"profile": profile, "profile_id": 9, "start": 0, "size": 4, "id": 1, "parts": each}


def divided(*instances: dict[str, Any]) -> dict[str, Any]:
    said = copy.deepcopy(TRUTH[LIAR])
    for device in said["gpus"]["devices"]:
        device |= {"mig_enabled": True, "mig": list(instances)}
    return said


def as_ports_of(name: str, spell: Any = str) -> dict[str, Any]:
    said = copy.deepcopy(TRUTH[LIAR])
    said["ports"] = [{**p, "guid": spell(p["guid"])} for p in TRUTH[name]["ports"]]
    return said


IDENTITY: list[Lie] = [
    ("GUIDs of gpu-1", as_ports_of("gpu-1")),
    ("GUIDs of gpu-1, capitals", as_ports_of("gpu-1", str.upper)),
    ("GUIDs of gpu-1, 0x", as_ports_of("gpu-1", lambda g: "0x" + g.replace(":", ""))),
    ("GUIDs of gpu-1, 0x0", as_ports_of("gpu-1", lambda g: "0x000" + g.replace(":", ""))),
    (
        "GUIDs of gpu-1 beside its own",
        {**TRUTH[LIAR], "ports": TRUTH["gpu-1"]["ports"] + TRUTH[LIAR]["ports"]},
    ),
]


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a document: fields, and the first of each list."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else list(enumerate(value))[:1]
    for key, one in items if isinstance(value, dict | list) else ():
        yield from (
            _leaves(one, (*path, key)) if isinstance(one, dict | list) else iter([(*path, key)])
        )


def _instead(value: Any) -> list[Any]:
    if isinstance(value, bool) or value is None:
        return [True, None]
    if isinstance(value, int | float):
        return [0, value * 2, value // 2, 65_536, 2**62, -1]
    if isinstance(value, str):
        return ["", "gpu-1", "v1"]
    return [type(value)(), value * 2 if isinstance(value, list) else {}, None]


def lies() -> Iterator[Lie]:
    """One field made another, or gone; and whole stories."""
    for path in _leaves(TRUTH[LIAR]):
        *above, last = path
        here: Any = TRUTH[LIAR]
        for key in above:
            here = here[key]
        for other in _instead(here[last]):
            said = copy.deepcopy(TRUTH[LIAR])
            place: Any = said
            for key in above:
                place = place[key]
            place[last] = other
            yield f"{path}={other!r}", said
    yield (
        "4096 CPUs, 8 GiB",
        merged("cpu", cores=4096, threads=4096) | {"memory": {"total": 8 * GIB, "available": 1}},
    )
    yield (
        "2^40 CPUs",
        merged("cpu", sockets=1, cores=2**40, threads=2**40)
        | {"memory": {"total": 2**62, "available": 1}},
    )
    yield (
        "another class",
        merged("cpu", sockets=1, cores=32, threads=64)
        | {"memory": {"total": 256 * GIB, "available": 1}},
    )
    yield (
        "twice of all",
        merged("cpu", sockets=4, cores=192, threads=384)
        | {"memory": {"total": 2000 * GIB, "available": 1}},
    )
    yield (
        "a container of v1",
        merged("os", cgroup="v1", container="docker", id="ubuntu", version_id="22.04"),
    )
    yield "another host", {**TRUTH["gpu-1"], "host": LIAR}
    yield "the head", {**TRUTH["head"], "host": LIAR}
    yield (
        "nothing",
        facts_of(
            LIAR, cpu={"sockets": 0, "cores": 0, "threads": 0}, memory={"total": 0, "available": 0}
        ).model_dump(mode="json"),
    )
    yield "simulated", {**TRUTH[LIAR], "simulated": ["gpu", "host", "fabric", "cpu", "memory"]}
    yield "parts", divided(instance("3g.40gb"), instance("3g.40gb"))
    yield "parts nobody makes", divided(*[instance("7g.80gb", 7)] * 7)
    yield "5,000 parts", divided(instance("1g.10gb", 5000))
    yield (
        "GPUs without end",
        {
            **TRUTH[LIAR],
            "gpus": {
                **TRUTH[LIAR]["gpus"],
                "devices": [{**TRUTH[LIAR]["gpus"]["devices"][0], "index": n} for n in range(300)],
            },
        },
    )
    yield (
        "another model",
        {
            **TRUTH[LIAR],
            "gpus": {
                **TRUTH[LIAR]["gpus"],
                "devices": [{**d, "name": OTHER_MODEL} for d in TRUTH[LIAR]["gpus"]["devices"]],
            },
        },
    )
    yield "a switch's GUIDs", as_ports_of(LIAR, lambda _: "0x0000000000000fff")
    yield "GUIDs of nobody", as_ports_of(LIAR, lambda g: g.replace("a103", "ffff"))
    yield (
        "300 ports",
        {
            **TRUTH[LIAR],
            "ports": [{**TRUTH[LIAR]["ports"][0], "guid": f"0x{n:x}"} for n in range(1, 300)],
        },
    )
    yield from IDENTITY


def answers() -> Iterator[tuple[str, dict[str, HostFacts]]]:
    """Lies that are facts at all; others are refused where they are read."""
    honest = facts()
    for name, lie in lies():
        try:
            yield name, {**honest, LIAR: HostFacts.model_validate(lie)}
        except ValidationError:
            continue


def given(
    session: Session, said: Mapping[str, HostFacts], before: Mapping[str, HostFacts] | None = None
) -> dict[str, Any]:
    """The variables of honest hosts; ``before``: what was accepted, where many answers are compared with it."""
    shared = Shared()
    known = shareable_facts(
        session.profile, session.site, said, accepted_facts(session) if before is None else before
    )
    made: dict[str, Any] = {}
    for host in session.site.hosts:
        if host.name not in {LIAR, "gpu-2", "gpu-3"}:
            context = session.context(host, said, shared, known)
            made[host.name] = {s.name: s.variables(context) for s in READ}
    return made


def text(made: object) -> str:
    return json.dumps(made, sort_keys=True, default=str)


def test_others_are_given_the_same_whatever_an_accepted_host_says(site: Session) -> None:
    before = given(site, facts())
    deployed(site, facts())
    assert text(given(site, facts())) == text(before)
    tried, kept, expected = 0, accepted_facts(site), text(before)
    for name, said in answers():
        assert text(given(site, said, kept)) == expected, name
        tried += 1
    assert tried > 150


def test_others_are_given_the_same_when_the_liar_was_remembered_and_is_silent(
    site: Session,
) -> None:
    deployed(site, facts())
    before = given(site, facts())
    lie = HostFacts.model_validate(merged("cpu", cores=4096, threads=4096))
    store_facts(site, Round({LIAR: lie}, {}))
    assert text(given(site, {**facts(), LIAR: lie})) == text(before)


def _without_its_row(made: dict[str, Any]) -> Any:
    """All but what says something of the liar itself."""

    def cut(value: Any) -> Any:
        if isinstance(value, list):
            return [
                cut(v)
                for v in value
                if not (isinstance(v, dict) and LIAR in (v.get("name"), v.get("instance")))
            ]
        if isinstance(value, dict):
            return {k: cut(v) for k, v in value.items() if k not in ("fabric_partitions", LIAR)}
        if isinstance(value, str) and "," in value:
            return ",".join(n for n in value.split(",") if n != LIAR)
        return value

    return {key: cut(value) for key, value in made.items()}


def _members(made: dict[str, Any]) -> set[str]:
    (team,) = made["head"]["fabric"]["fabric_partitions"]
    return set(team["guids"])


def _guids_of(name: str) -> set[str]:
    return {f"{int(p['guid'].replace(':', ''), 16):#018x}" for p in TRUTH[name]["ports"]}


def test_at_a_first_deployment_a_lie_changes_at_most_the_liars_own_row(site: Session) -> None:
    made = given(site, facts(), {})
    before = text(_without_its_row(made))
    others = _guids_of("gpu-1") | _guids_of("gpu-2") | _guids_of("gpu-3")
    assert _members(made) == others | _guids_of(LIAR)
    for name, said in answers():
        made = given(site, said, {})
        stolen = name.startswith("GUIDs of gpu-1") or name == "another host"
        # Who of the two has them is not known yet, unless one reports more than its class has ports.
        stolen = stolen and name != "GUIDs of gpu-1 beside its own"
        claimed = _guids_of("gpu-1") if stolen else set()
        assert others - claimed <= _members(made), name
        assert not claimed & _members(made), name
        if name not in {"nothing", "the head", "('ports',)=[]", "('ports',)=None"}:
            assert text(_without_its_row(made)) == before, name


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (merged("cpu", cores=2**40, threads=2**40), "processors"),
        (merged("memory", total=8 * GIB), "memory"),
        (merged("os", cgroup="v1"), "isolation"),
        (as_ports_of("gpu-1"), "ports"),
        (divided(instance("1g.10gb")), "GPU 0"),
    ],
)
def test_a_contradiction_is_found_whether_or_not_the_host_was_accepted(
    site: Session, lie: dict[str, Any], words: str
) -> None:
    said = facts(lie)
    fresh = shared_facts_of(site, said).contradictions
    deployed(site, facts())
    after = shared_facts_of(site, said).contradictions
    if words != "GPU 0":
        assert words in [c.what for c in fresh[LIAR]]
    assert words in [c.what for c in after[LIAR]]
    assert set(after) == {LIAR}


def test_a_host_beyond_its_class_is_left_out_until_it_was_accepted(site: Session) -> None:
    lie = facts(merged("cpu", cores=2**40, threads=2**40))
    nodes = given(site, lie)["head"]["slurm"]["slurm_nodes"]
    assert [n["name"] for n in nodes] == ["gpu-1", "gpu-2", "gpu-3"]
    assert LIAR not in text(given(site, lie)["head"]["slurm"]["slurm_switches"])
    deployed(site, facts())
    nodes = given(site, lie)["head"]["slurm"]["slurm_nodes"]
    assert [n["name"] for n in nodes] == list(GPU_HOSTS)


def test_cores_that_were_not_read_are_no_contradiction_and_a_thousand_threads_of_one_are(
    site: Session,
) -> None:
    assert not shared_facts_of(site, facts(merged("cpu", cores=0, threads=190))).contradictions
    assert shared_facts_of(site, facts(merged("cpu", cores=12, threads=192))).left_out


def test_the_operator_accepts_what_was_changed_on_purpose(site: Session) -> None:
    deployed(site, facts())
    more = facts(merged("memory", total=4000 * GIB))
    assert shared_facts_of(site, more).contradictions
    accepting = replace(site, accepting=frozenset({LIAR}))
    assert not shared_facts_of(accepting, more).contradictions
    deployed(accepting, more)
    assert not shared_facts_of(site, more).contradictions
    assert accepted_facts(site)[LIAR].memory.total == 4000 * GIB


def test_no_operator_accepts_numbers_beyond_slurm_or_anothers_identity(site: Session) -> None:
    deployed(site, facts())
    accepting = replace(site, accepting=frozenset({LIAR}))
    assert shared_facts_of(accepting, facts(merged("cpu", cores=2**40, threads=2**40))).left_out
    assert shared_facts_of(accepting, facts(as_ports_of("gpu-1"))).contradictions


def test_a_new_host_gets_no_port_of_an_adapter_that_was_accepted_of_another(site: Session) -> None:
    """The GUID is nobody's; less by the port's number it is that of another host's adapter."""
    deployed(site, facts())
    said = copy.deepcopy(TRUTH[LIAR])
    said["ports"] = [
        {**p, "port": 2, "guid": f"{int(p['guid'].replace(':', ''), 16) + 1:#018x}"}
        for p in TRUTH["gpu-1"]["ports"][-1:]
    ]
    new = replace(site, accepting=frozenset({LIAR}))
    shared = shared_facts_of(new, facts(said))
    assert not shared.facts[LIAR].ports
    assert "gpu-1 has this GUID" in str(shared.contradictions[LIAR])


def test_a_lie_about_guids_takes_none_from_a_control_host_or_from_a_new_host(
    site: Session,
) -> None:
    """Of an honest host nothing contradicts, unless the liar reports as few GUIDs as it."""
    head = [{**TRUTH[LIAR]["ports"][0], "guid": "0x0c42a10300ff0001"}]
    more = [*TRUTH[LIAR]["ports"], *head, *TRUTH["gpu-1"]["ports"]]
    answers = facts({**TRUTH[LIAR], "ports": more})
    answers["head"] = answers["head"].model_copy(
        update={"ports": HostFacts.model_validate({**TRUTH[LIAR], "ports": head}).ports}
    )
    first = shared_facts_of(site, answers)
    assert set(first.contradictions) == {LIAR}
    deployed(site, {n: f for n, f in facts().items() if n != "gpu-1"})
    later = shared_facts_of(site, answers)
    assert set(later.contradictions) == {LIAR}
    assert len(later.facts["gpu-1"].ports) == len(TRUTH["gpu-1"]["ports"])


def test_of_two_new_hosts_with_one_guid_neither_is_known_to_lie(site: Session) -> None:
    shared = shared_facts_of(site, facts(as_ports_of("gpu-1")))
    told = [one for name in ("gpu-1", LIAR) for one in shared.contradictions[name]]
    assert all(one.disputed for one in told)
    assert f"{LIAR} reports it, too" in str(shared.contradictions["gpu-1"])


def test_what_contradicts_or_failed_is_not_accepted(site: Session) -> None:
    deployed(site, facts())
    deployed(site, facts(merged("memory", total=2000 * GIB)))
    assert accepted_facts(site)[LIAR].memory.total == 1000 * GIB
    failed = [StageOutcome(stage="slurm", host=LIAR, state=StageState.FAILED)]
    other = replace(site, profile=site.profile.model_copy(update={"name": "other"}))
    record_accepted(other, facts(), failed)
    assert set(accepted_facts(other)) == set(GPU_HOSTS) - {LIAR}


def test_nothing_is_written_where_nothing_changed(site: Session) -> None:
    for _ in range(3):
        deployed(site, facts())
    assert len(list(site.journal.entries(ACCEPTED, host="gpu-1"))) == 1


def test_what_all_hosts_became_is_no_contradiction(site: Session) -> None:
    deployed(site, facts())
    more = {
        name: f.model_copy(update={"memory": f.memory.model_copy(update={"total": 2000 * GIB})})
        if name in GPU_HOSTS
        else f
        for name, f in facts().items()
    }
    found = shared_facts_of(site, more)
    assert not found.contradictions
    assert {found.facts[n].memory.total for n in GPU_HOSTS} == {2000 * GIB}


def test_a_lost_gpu_or_some_memory_of_the_kernels_own_changes_nothing_and_is_no_contradiction(
    site: Session,
) -> None:
    deployed(site, facts())
    before = text(given(site, facts()))
    lost = merged("memory", total=990 * GIB)
    del lost["gpus"]["devices"][3]
    found = shared_facts_of(site, facts(lost))
    assert not found.contradictions
    assert text(given(site, facts(lost))) == before


def test_a_site_of_an_earlier_version_is_known_by_its_last_finished_stage(site: Session) -> None:
    site.journal.append(site.run, "run_started", profile=site.profile.name)
    store_facts(site, Round(facts(), {}))
    for name in ("head", *GPU_HOSTS):
        site.journal.append(site.run, "host_done", stage="slurm", host=name)
    lie = facts(merged("memory", total=700 * GIB))
    store_facts(replace(site, run="r2"), Round(lie, {}))
    assert accepted_facts(site)[LIAR].memory.total == 1000 * GIB
    assert LIAR in shared_facts_of(site, lie).contradictions
