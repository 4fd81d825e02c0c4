"""Every role keeps its word: its options, what the program gives it, its anatomy and its README."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml  # noqa: TID251 - reads the roles' own files
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from appliance.actions.hosts import owners
from appliance.config import data
from appliance.config.load import LoadedSite, load_site
from appliance.config.new_secrets import CLUSTER_KEY
from appliance.config.secrets import Secret
from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.site import Owner, Role, Site
from appliance.stages.backup.site import BackupOptions
from appliance.stages.catalog import STAGES
from appliance.stages.context import RoleContext, Variables
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.scheduler.site import SchedulerOptions
from appliance.stages.stage import Stage
from appliance.stages.workloads.site import Addon, NfsCsi, WorkloadsOptions
from tests.golden.record import SITES
from tests.support.facts import facts_of

ROOT = data.root()
ROLES = sorted(path.parent.parent for path in (ROOT / "roles").glob("*/tasks/main.yml"))
PHASES = ("install", "configure", "service", "verify", "leave")
MENU = ("Requirements", "Tags", "Variables", "Example", "Limits")
OF_ENTRY = {"name", "when", "vars", "loop", "after_change", "ignore_failure", "pauses_for"}
COLLECTION = ROOT / "playbooks/collections/ansible_collections/appliance/host/plugins"
RESOURCES = {file.stem for file in (COLLECTION / "module_utils/resources").glob("*.py")}
FOREIGN = re.compile(r"\bhostvars\b|\bgroups\b\s*[\[.]|\bgroup_names\b")
each_role = pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)


def read(file: Path) -> Any:
    """One YAML file; None where it does not exist."""
    return yaml.safe_load(file.read_text()) if file.exists() else None


def options(role: Path) -> dict[str, dict[str, Any]]:
    """The role's options by name, as its specification has them."""
    spec = read(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    assert isinstance(spec, dict)
    return spec


def tasks(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """All tasks of a file, those within blocks too."""
    for task in entries:
        yield task
        for key in ("block", "rescue", "always"):
            yield from tasks(task.get(key, []))


def written(role: Path) -> list[Path]:
    """What a role runs or renders."""
    kinds = ("tasks", "handlers", "templates", "defaults", "vars", "meta")
    return [path for kind in kinds for path in (role / kind).rglob("*") if path.is_file()]


@each_role
def test_an_option_is_required_or_has_a_default_and_says_what_it_is(role: Path) -> None:
    for name, option in options(role).items():
        assert bool(option.get("required")) != ("default" in option), name
        assert all((option.get("description"), option.get("type"))), name


@each_role
def test_an_option_is_read_by_a_task_a_template_or_a_list(role: Path) -> None:
    kinds = ("tasks", "templates", "vars")
    texts = [f.read_text() for kind in kinds for f in (role / kind).rglob("*") if f.is_file()]
    read_ = {name for text in texts for name in re.findall(r"\w+", text)}
    unread = [name for name in options(role) if name not in read_]
    assert unread == [], "no task, template or list of vars/ reads these options of the role"


@each_role
def test_every_variable_bears_the_roles_name(role: Path) -> None:
    own = (f"{role.name}_", f"__{role.name}_")
    assert [name for name in options(role) if not name.startswith(own[0])] == []
    inner = {name for file in (role / "vars").glob("*.yml") for name in read(file) or {}}
    assert [name for name in inner if not name.startswith(own)] == []


@each_role
def test_every_inner_variable_that_is_read_is_made_somewhere(role: Path) -> None:
    kinds = ("tasks", "templates", "vars")
    texts = [f.read_text() for kind in kinds for f in (role / kind).rglob("*") if f.is_file()]
    made = rf"(?:^ *|register: |set )(__{role.name}_\w+)(?=:|$| )"
    known = {name for text in texts for name in re.findall(made, text, re.M)}
    read_ = {name for text in texts for name in re.findall(rf"\b__{role.name}_\w+", text)}
    assert read_ - known == set()


def entries(role: Path) -> Iterator[dict[str, Any]]:
    """What a role applies by appliance.host.apply; a list that goes on after a reboot once."""
    lists: list[list[dict[str, Any]]] = []
    for file in sorted((role / "tasks").glob("*.yml")):
        for task in tasks(read(file)):
            given = task.get("appliance.host.apply", {}).get("resources", [])
            if given not in lists:
                lists.append(given)
                yield from given


@each_role
def test_an_applied_entry_names_its_phase(role: Path) -> None:
    named = [entry["name"] for entry in entries(role)]
    assert [n for n in named if not re.match(rf"({'|'.join(PHASES)}) \| [A-Z]", n)] == []
    assert len(named) == len(set(named)), "an entry is found by its name"
    assert named, "a role lists what it wants of a host"
    order = [PHASES.index(name.partition(" | ")[0]) for name in named]
    in_files = role.name in {"containerd", "kubernetes"}
    assert in_files or order == sorted(order), "phases come in their order"
    phases = {f"{role.name}:{name.partition(' | ')[0]}" for name in named}
    for task in read(role / "tasks/main.yml"):
        assert {role.name} < set(task["tags"]) <= {role.name, *phases}, task["name"]


@each_role
def test_an_entry_has_one_resource_of_the_collection(role: Path) -> None:
    for entry in entries(role):
        resource = [key for key in entry if key not in OF_ENTRY]
        assert len(resource) == 1, entry
        assert resource[0] in RESOURCES, entry


@each_role
def test_an_entry_speaks_only_of_entries_before_it(role: Path) -> None:
    before: set[str] = set()
    for entry in entries(role):
        asked = {
            value["answer_of"]
            for given in entry.values()
            if isinstance(given, dict)
            for value in given.values()
            if isinstance(value, dict) and "answer_of" in value
        }
        assert {*entry.get("after_change", ()), *asked} <= before, entry["name"]
        before.add(entry["name"])


@each_role
def test_every_task_names_its_file(role: Path) -> None:
    files = [file for file in (role / "tasks").glob("*.yml") if file.stem != "main"]
    names = {(file.stem, task.get("name", "")) for file in files for task in tasks(read(file))}
    assert [name for stem, name in names if not re.match(rf"{stem} \| [A-Z]", name)] == []


@each_role
def test_a_role_looks_at_nobody_elses_variables(role: Path) -> None:
    texts = {file: file.read_text() for file in written(role)}
    assert [file.name for file, text in texts.items() if FOREIGN.search(text)] == []
    others = "|".join(other.name for other in ROLES if other != role)
    foreign = re.compile(rf"\{{\{{[^}}]*(?<![.\w])(?:__)?(?:{others})_[a-z_]+")
    assert [found.group() for text in texts.values() for found in foreign.finditer(text)] == []


@each_role
def test_readme_has_the_fixed_menu(role: Path) -> None:
    title, *chapters = re.split(r"^#+ ", (role / "README.md").read_text(), flags=re.M)[1:]
    chapter = {text.splitlines()[0]: "\n".join(text.splitlines()[1:]) for text in chapters}
    assert title.splitlines()[0] == role.name
    assert tuple(name for name in chapter if name in MENU) == MENU
    assert all(chapter[name].strip() for name in MENU)


def facts(host: str) -> HostFacts:
    """A machine with one processor and one GPU."""
    device = {"index": 0, "uuid": "u", "name": "NVIDIA H100", "bus_id": "b", "memory": 1}
    return facts_of(
        host,
        cpu={"model": "x", "sockets": 1, "cores": 8, "threads": 16},
        memory={"total": 1 << 38, "available": 1 << 37},
        gpus={"driver": "580", "nvml": "12", "devices": [device]},
    )


@pytest.fixture(scope="module")
def example() -> LoadedSite:
    """The site that ships as an example; it has every role of host."""
    return load_site(ROOT / "inventories/example")


def asking(stage: Stage, site: Site) -> Site:
    """The site, with a section for a stage it would not want."""
    if stage.wanted(site):
        return site
    sections = {
        "kubernetes": KubernetesOptions(),
        "scheduler": SchedulerOptions(),
        "backup": BackupOptions(target="/mnt/backup", recipient="age1" + 58 * "q"),
        "workloads": WorkloadsOptions(nfs_csi=NfsCsi(), kuberay=Addon()),
    }
    return site.model_copy(update=sections)


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> LoadedSite:
    """A site that sets nothing but what it must."""
    return load_site(SITES["hpc"](tmp_path_factory.mktemp("silent")))


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_a_default_of_a_role_is_empty_or_the_sites_own(stage: Stage, silent: LoadedSite) -> None:
    site = asking(stage, silent.site)
    given = list(variables_of(stage, site, silent.profile, {}))
    differing = {
        name: (option["default"], values)
        for role in stage.ansible_roles
        for name, option in options(_role(role)).items()
        if option.get("default")
        if (values := [one[name] for one in given if name in one])
        if option["default"] not in values
    }
    assert differing == {}


def variables_of(
    stage: Stage, site: Site, profile: Profile, seen: Mapping[str, HostFacts]
) -> Iterator[Variables]:
    """What the program gives the stage's roles on each of its hosts."""
    secrets = {name: Secret("k" * 43 + "=") for name in (*site.secrets, CLUSTER_KEY)}
    for host in site.hosts:
        if stage.roles & set(host.roles):
            yield stage.variables(RoleContext(profile, site, host, secrets, seen))


@pytest.mark.parametrize("known", [True, False], ids=["with facts", "before facts"])
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_what_the_program_gives_a_role_is_what_it_accepts(
    stage: Stage, known: bool, example: LoadedSite
) -> None:
    site = asking(stage, example.site)
    spec = {name: o for role in stage.ansible_roles for name, o in options(_role(role)).items()}
    seen = {host.name: facts(host.name) for host in site.hosts} if known else {}
    made = list(variables_of(stage, site, example.profile, seen))
    assert made
    for given in made:
        assert set(given) <= set(spec), "the role's meta/argument_specs.yml lacks these options"
        assert {name for name, o in spec.items() if o.get("required")} <= set(given)
        assert ArgumentSpecValidator(spec).validate(given).error_messages == []


def test_no_stage_but_those_a_move_runs_depends_on_whose_a_host_is(example: LoadedSite) -> None:
    base = asking(next(s for s in STAGES if s.name == "workloads"), example.site)
    moved = base.with_role(Role.GPU)[0]
    seen = {host.name: facts(host.name) for host in base.hosts}

    def given(stage: Stage, owner: Owner) -> list[object]:
        hosts = [h.model_copy(update={"owner": owner}) if h == moved else h for h in base.hosts]
        site = base.model_copy(update={"hosts": tuple(hosts)})
        return [*variables_of(stage, site, example.profile, seen)]

    changed = {s.name for s in STAGES if given(s, Owner.SLURM) != given(s, Owner.KUBERNETES)}
    assert changed == set(owners.STAGES)


def _role(name: str) -> Path:
    return ROOT / "roles" / name
