"""Each key of a site has a way into what is made of the site: with another value something else is made."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from functools import partial
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel

from appliance.engine.look.judge import judge_all
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.engine.look.shared_baseline import shared_facts_of
from appliance.engine.look.survey import view_of
from appliance.engine.session import endpoints
from appliance.errors import ApplianceError
from appliance.models.site import Site
from appliance.provision.manifest import Image, ImageFile, Manifest
from appliance.provision.settings import settings
from appliance.stages.catalog import STAGES
from appliance.stages.context import RoleContext, Shared, Variables
from appliance.stages.scheduler.queues.rendered import rendered
from appliance.stages.stage import Stage
from tests.golden.record import Made, at_work
from tools.published.keys import inner_of, rows

ELSEWHERE = {
    "version": "of the schema; takes one value",
    "profile": "which file is loaded: config/load.py",
    "hosts[].class": "which file is loaded for the host: config/load.py",
    "software.NAME": "laid over the profile's as both are loaded: config/load.py",
    "hosts[].bmc.": "asked by discover, power and provision: bmc/checks, adapters/redfish.py",
    "hosts[].rack": "a label of service discovery: actions/sites/inventory.py",
    "hosts[].unit": "a label of service discovery: actions/sites/inventory.py",
    "hosts[].serial": "compared with the BMC's by discover: bmc/checks/identity.py",
    "secrets.NAME.": "read as a run begins: config/secrets.py",
    "observe.receivers[].webhook.": "read as a run begins: config/secrets.py",
    "observe.receivers[].slack.": "read as a run begins: config/secrets.py",
    "observe.mail.password.": "read as a run begins: config/secrets.py",
    "notify.": "sent by the control machine alone: engine/notices.py",
    "networks.NAME.dhcp[]": "who may answer a machine that is installed: provision/dhcp.py",
    "provision.image": "what machines are installed with: actions/provisioning/provision.py",
    "provision.signers": "who may have signed it: actions/provisioning/provision.py",
    "provision.address": "where it is served: actions/provisioning/provision.py",
    "provision.port": "where it is served: actions/provisioning/provision.py",
    "base.keep[]": "what is nobody's and stays: stages/base/checks/foreign.py",
    "base.advisories[].": "what is known of versions: stages/base/checks/advisories.py",
    "gpu.": "how hosts are drained: engine/run/rollout.py, engine/plan/rollout_order.py",
    "slurm.containers.benchmark.": "what validate measures in: actions/validation.py",
    "kubernetes.trial_image": "what pods that try and measure run in: actions/benchmarks/through_pods.py",
    "scheduler.runai.": "where queue plan and apply find Run:ai: actions/kubernetes/queues.py",
    "workloads.queue": "where trials run: actions/trials/workloads.py",
    "workloads.images.NAME": "what trials run: actions/trials/workloads.py",
    "limits.NAME.unit": "whether it is the check's own: config/rules/limits.py",
    "limits.NAME.date": "beside the limit in reports: engine/accept/acceptance.py",
}
"""Keys, or all below a prefix, whose way is another one, and where it leads."""
ENTRY = ImageFile(name="disk.raw.zst", bytes=1, sha256="0" * 64)
IMAGE = Image(
    Path("image"),
    Manifest(
        name="image",
        release="12",
        kernel="6.1",
        built="2026-11-25",
        disk_bytes=1,
        root_uuid="u",
        files=(ENTRY,),
    ),
    "0" * 64,
)

SITES_WITH_ALL_KEYS = ("infiniband", "ethernet", "external-cluster")
"""tests/contract/test_full_sites.py sees to that."""

REFUSED = (ApplianceError, AssertionError, LookupError, TypeError, ValueError)
"""What a site that no rule would let through may raise: it tells that the value was looked at."""

Put = Callable[[Any], Site]
"""Makes the site with another value in one place."""
Part = Callable[[Site], object]
"""Makes one thing of a site."""


def places(model: BaseModel, put: Put, prefix: str = "") -> Iterator[tuple[str, Any, Put]]:
    """Every value in a site: its key as ``rows`` writes it, other values of its type, and how it is replaced."""
    for name, info in type(model).model_fields.items():
        inner, suffix = inner_of(info.annotation)
        key = f"{prefix}{info.alias or name}{suffix}"
        value = getattr(model, name)
        here = partial(_with_field, put, model, name)
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            usual = (
                ()
                if info.is_required()
                else (info.get_default(call_default_factory=True, validated_data={}),)
            )
            yield key, [o for o in (*usual, *others(value, info.annotation)) if o != value], here
        yield from _inner(value, here, f"{key}.")


def _inner(value: Any, put: Put, prefix: str) -> Iterator[tuple[str, Any, Put]]:
    if isinstance(value, BaseModel):
        yield from places(value, put, prefix)
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _inner(item, partial(_with_item, put, value, i), prefix)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _inner(item, partial(_with_entry, put, value, name), prefix)


def _with_field(put: Put, model: BaseModel, name: str, new: Any) -> Site:
    return put(model.model_copy(update={name: new}))


def _with_item(put: Put, items: tuple[Any, ...], at: int, new: Any) -> Site:
    return put((*items[:at], new, *items[at + 1 :]))


def _with_entry(put: Put, entries: Mapping[str, Any], name: str, new: Any) -> Site:
    return put({**entries, name: new})


def others(value: Any, annotation: Any) -> list[Any]:
    """Other values of this kind."""
    if choices := _choices(annotation):
        return choices
    match value:
        case bool():
            return [not value]
        case Enum():
            return list(type(value))
        case int() | float() | IPv4Address():
            return [value + 1]
        case str():
            return [f"{value}x"]
        case IPv4Network():
            return [IPv4Network("192.168.77.0/24")]
        case tuple() if value:
            return [value[:-1], *((*value[:-1], other) for other in others(value[-1], None))]
        case Mapping() if value:
            name, first = next(iter(value.items()))
            return [{}, *({**value, name: other} for other in others(first, None))]
    return []


def _choices(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [choice for part in get_args(annotation) for choice in _choices(part)]


def parts_of(made: Made) -> dict[str, Part]:
    """What is made of a site, by a name that begins as the section does which it is mostly made of."""
    found, session = made.found, made.session

    def variables(stage: Stage, site: Site) -> object:
        own, shared = replace(session, site=site), Shared()
        known = shared_facts_of(own, found.facts)
        hosts = [host for host in site.hosts if stage.concerns(site, host)]
        return [stage.variables(own.context(host, found.facts, shared, known)) for host in hosts]

    def judged(site: Site) -> object:
        again = replace(found)
        return judge_all(view_of(replace(session, site=site), again), again, ALL_CHECK_IDS)

    return {
        **{stage.name: partial(variables, stage) for stage in STAGES},
        "checks": judged,
        "queues": lambda site: rendered(site, session.profile) if site.scheduler else None,
        "access": lambda site: endpoints(site, session.folder),
        "hosts": lambda site: [settings(site, host, IMAGE, "key", None) for host in site.hosts],
    }


class Reach:
    """Which keys of a site reach what is made of it."""

    def __init__(self, made: Made) -> None:
        self._site = made.session.site
        self._parts = parts_of(made)
        self._before = {name: part(self._site) for name, part in self._parts.items()}

    def keys(self, done: set[str]) -> Iterator[str]:
        """Those whose values change something; ``done``: those that need not be tried."""
        for key, values, put in places(self._site, lambda site: site):
            if key not in done and any(self._changes(key, put(value)) for value in values):
                done.add(key)
                yield key

    def _changes(self, key: str, site: Site) -> bool:
        section = key.split(".")[0].removesuffix("[]")
        for name in sorted(self._parts, key=lambda name: not name.startswith(section)):
            try:
                if self._parts[name](site) != self._before[name]:
                    return True
            except REFUSED:
                return True
        return False


def reached(folder: Path, done: set[str]) -> set[str]:
    """The keys that change what is made of one of the record's sites; those of ``done`` are not tried."""
    seen = set(done)
    for name in SITES_WITH_ALL_KEYS:
        (folder / name).mkdir()
        with at_work(name, folder / name) as site:
            seen |= set(Reach(site.settled).keys(seen))
    return seen


def lost(found: set[str]) -> list[str]:
    """Keys without keys below them that change nothing, and go nowhere else."""
    keys = [key for key, *_ in rows("site")]
    sections = {key.rpartition(".")[0] for key in keys}
    return [k for k in keys if k not in sections and k not in found and not _elsewhere(k)]


def _elsewhere(key: str) -> bool:
    return any(key == at or (at.endswith(".") and key.startswith(at)) for at in ELSEWHERE)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Once for all tests."""
    return reached(tmp_path_factory.mktemp("sites"), set())


def test_each_key_of_a_site_changes_what_is_made_of_it(found: set[str]) -> None:
    assert lost(found) == [], (
        "no site of tests/data/full_sites sets these, or nothing reads them, or ELSEWHERE lacks what does"
    )


def test_a_key_is_said_to_go_elsewhere_only_where_nothing_shows_it(found: set[str]) -> None:
    assert [at for at in ELSEWHERE if any(k == at or k.startswith(at) for k in found)] == []


def test_a_key_whose_value_ships_fixed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fixed(context: RoleContext) -> Variables:
        return {**observe.variables(context), "observe_retention_days": 30}

    observe = next(stage for stage in STAGES if stage.name == "observe")
    changed = [replace(s, variables=fixed) if s is observe else s for s in STAGES]
    monkeypatch.setitem(globals(), "STAGES", changed)
    key, every = "observe.retention_days", {key for key, *_ in rows("site")}
    assert lost(reached(tmp_path, every - {key})) == [key]
