"""A site, a profile and facts with a payload in every text a model takes: the real Ansible evaluates them, and nothing runs."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.ansible import LAST_PLAY, HostPlay, Play, play
from appliance.config.document import read
from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.catalog import STAGES
from appliance.stages.context import Variables
from tests.integration import hostile_site
from tests.integration.hostile_site import Document, can_be_deployed, payloads, spread
from tests.support.planted_trees import models_of

ROOT = Path(__file__).parents[2]
ROLES = ROOT / "roles"
NAMES = sorted({role for stage in STAGES for role in stage.ansible_roles})
ADDRESSES = {"head": "10.0.0.10", "gpu-1": "10.0.0.11", "gpu-2": "10.0.0.12"}
MARK = "MADE"
ELSEWHERE = {"RunaiOptions", "RunaiInstall", "RunaiInference", "Resources"}
"""Of the scheduler this site has not."""
SHOWN = {
    "base": {"etc/hosts.j2", "etc/chrony/chrony.conf.j2"},
    "storage": {"etc/systemd/system/mount_units.json.j2"},
    # The site's folder on the control machine, where its pinned files are.
    "slurm": {"var/lib/appliance/slurm-containers.json.j2"},
}
"""Templates in which free texts of the site stand, until the models give them a form."""
WANTED = {
    "usr/local/sbin/appliance-ipoib.j2": "fabric_ipoib",
    "usr/local/sbin/appliance-roce.j2": "fabric_roce",
    "etc/enroot/enroot.conf.j2": "slurm_containers",
    "etc/enroot/mounts.d/50-appliance-scratch.fstab.j2": "slurm_containers",
    "etc/slurm/prolog.d/20-containers.sh.j2": "slurm_containers",
    "etc/systemd/system/appliance-etcd.service.j2": "kubernetes_backup",
    "etc/systemd/system/appliance-etcd.timer.j2": "kubernetes_backup",
}
"""Templates that only hosts with such a variable have."""


@dataclass(frozen=True)
class Planted:
    """``made``: the file that would be there; ``known``: variables made of hostile facts alone."""

    made: Path
    variables: Mapping[str, Variables]
    known: Mapping[str, Variables]
    places: int


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """All variables of all stages, with every text that was taken."""
    made = tmp_path_factory.mktemp("payloads") / MARK
    texts, site, profile = payloads(made), hostile_site.SITE, hostile_site.profile()
    answers = {name: hostile_site.facts(name, a) for name, a in ADDRESSES.items()}
    sound = {name: HostFacts.model_validate(answer) for name, answer in answers.items()}

    def fits(site: Document, profile: Document, **changed: Document) -> bool:
        known = {name: HostFacts.model_validate(answer) for name, answer in changed.items()}
        return can_be_deployed(site, profile, {**sound, **known}) is not None

    bad_facts, a = spread(HostFacts, answers["head"], texts, lambda d: fits(site, profile, head=d))
    bad_site, b = spread(Site, site, texts, lambda d: fits(d, profile))
    bad_profile, c = spread(Profile, profile, texts, lambda d: fits(site, d))
    known = {
        name: HostFacts.model_validate({**bad_facts, "interfaces": answer["interfaces"]})
        for name, answer in answers.items()
    }
    all_bad = can_be_deployed(bad_site, bad_profile, known)
    from_facts = can_be_deployed(site, profile, known)
    assert all_bad is not None
    assert from_facts is not None
    return Planted(made, all_bad, from_facts, len([*a, *b, *c]))


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (Site, hostile_site.SITE),
        (Profile, hostile_site.profile()),
        (HostFacts, hostile_site.facts("gpu-1", "10.0.0.11")),
    ],
)
def test_every_part_of_the_schema_is_tried(model: Any, document: Document) -> None:
    seen: set[str] = set()

    def look(value: Any) -> None:
        if isinstance(value, model.__mro__[1]):
            seen.add(type(value).__name__)
            for name in type(value).model_fields:
                look(getattr(value, name))
        elif isinstance(value, dict):
            for item in value.values():
                look(item)
        elif isinstance(value, tuple):
            for item in value:
                look(item)

    look(model.model_validate(document))
    wanted = {one.__name__ for one in models_of(model)} - ELSEWHERE
    assert wanted <= seen, "give the document in hostile_site.py these sections"


def test_no_text_of_a_hosts_facts_reaches_a_variable(planted: Planted) -> None:
    assert planted.places > 150
    for host, variables in planted.known.items():
        for name, value in variables.items():
            assert MARK not in json.dumps(value, default=str), f"{host}: {name}"


@pytest.fixture(scope="module")
def played(planted: Planted, tmp_path_factory: pytest.TempPathFactory) -> dict[str, HostPlay]:
    """Every variable shown, and every template of every role rendered, on two hosts that both are this machine."""
    folder = tmp_path_factory.mktemp("play")
    bad = payloads(planted.made)[0]
    mine = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "ansible_user": bad,
        "ansible_host": bad,
        "ansible_ssh_private_key_file": bad,
        "appliance_site_folder": bad,
        "appliance_repair_pins": {bad: bad},
        LAST_PLAY: 0,
    }
    hosts = {h: {**_defaults(), **planted.variables[h], **mine} for h in ("head", "gpu-1")}
    names = sorted({name for variables in hosts.values() for name in variables} - {"ansible_host"})
    tasks = [_shown(names), *_rendered()]
    request = Play(
        folder / "x.yml", (_play(tasks),), ROLES, hosts, {}, folder / "k", None, str(folder)
    )
    return play(request, lambda event: None, lambda host: None, lambda: False)


def test_nothing_runs(planted: Planted, played: dict[str, HostPlay]) -> None:
    assert all(host.ok for host in played.values()), played
    assert not planted.made.exists()


def _defaults() -> Document:
    """What a role has where nobody gives it: literals, all of them."""
    found: Document = {}
    for role in NAMES:
        data: Any = read(ROLES / role / "defaults/main.yml").data
        assert "{{" not in json.dumps(data)
        found |= data
    return found


def _play(tasks: list[Document]) -> Document:
    files = [ROLES / role / f"vars/{name}.yml" for role in NAMES for name in ("main", "Debian")]
    return {
        "hosts": "all",
        "gather_facts": True,
        "gather_subset": ["!all", "!min", "distribution"],
        "vars_files": [str(file) for file in files if file.exists()],
        "tasks": tasks,
    }


def _shown(names: list[str]) -> Document:
    listed = ", ".join(repr(name) for name in names)
    return {
        "name": "show all variables",
        "ansible.builtin.debug": {
            "msg": f"{{{{ query('ansible.builtin.vars', {listed}) | to_json }}}}"
        },
    }


def _rendered() -> list[Document]:
    """A task for each role: its templates are rendered, and no payload stands in one but where it is told to."""
    return [
        {
            "name": f"render role {role}",
            "ansible.builtin.assert": {"that": _conditions(role), "quiet": True},
        }
        for role in NAMES
        if (ROLES / role / "templates").exists()
    ]


def _conditions(role: str) -> list[str]:
    found = []
    for file in sorted((ROLES / role / "templates").rglob("*.j2")):
        name = str(file.relative_to(ROLES / role / "templates"))
        text = f"(lookup('ansible.builtin.template', '{file}') or '')"
        said = f"{text} is string" if name in SHOWN.get(role, ()) else f"'{MARK}' not in {text}"
        wanted = WANTED.get(name)
        found.append(f"{wanted} | length == 0 or {said}" if wanted else said)
    return found
