"""The fingerprint follows what a playbook reads, and nothing that tools and editors leave beside it."""

import ast
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml  # noqa: TID251 - reads what Ansible would

from appliance.config import data
from appliance.engine.plan.fingerprint import Digests, _parts, changed_inputs, inputs_of
from appliance.stages.catalog import STAGES
from appliance.stages.context import Shared
from tests.support.engine_fakes import stage_of

PLUGINS = Path("playbooks/collections/ansible_collections/appliance/host/plugins")
MODULES = PLUGINS / "modules"
STRAYS = (
    "playbooks/collections/.ruff_cache/0.14/8127",
    "playbooks/collections/.mypy_cache/3.11/x.json",
    f"{MODULES}/__pycache__/files.cpython-311.pyc",
    f"{MODULES}/files.pyc",
    f"{MODULES}/.files.py.swp",
    f"{MODULES}/files.py~",
    f"{MODULES}/#files.py#",
    f"{MODULES}/files.py.orig",
    "roles/base/.ansible/roles/x",
    "roles/base/molecule/default/new.yml",
    "roles/base/templates/.DS_Store",
    "roles/base/tasks/main.yml.bak",
    "roles/base/README.md",
)
CHANGES = (
    ("module files", f"{MODULES}/files.py"),
    ("module files", f"{PLUGINS}/action/files.py"),
    ("module units", f"{PLUGINS}/module_utils/systemd.py"),
    ("module live", f"{MODULES}/live.py"),
    ("role base", "roles/base/tasks/main.yml"),
    ("role base", "roles/base/templates/another.j2"),
    ("playbook", "playbooks/base.yml"),
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Playbooks, collection and one role as they are shipped."""
    folder = tmp_path_factory.mktemp("original")
    shutil.copytree(data.root() / "playbooks", folder / "playbooks")
    shutil.copytree(data.root() / "roles/base", folder / "roles/base")
    return folder


@pytest.fixture
def differs(original: Path, tmp_path: Path) -> Callable[[Callable[[Path], None]], list[str]]:
    """Names of the inputs that differ after a copy was treated so."""

    def compare(treat: Callable[[Path], None]) -> list[str]:
        copy = shutil.copytree(original, tmp_path / "copy")
        treat(copy)
        stage = stage_of("base", ansible_roles=("base",))
        return changed_inputs(
            *(inputs_of(stage, at, {}, Digests(b"salt", Shared())) for at in (original, copy))
        )

    return compare


def _write(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        out.write("# more\n")


def test_copy_has_the_same_inputs(differs: Callable[[Callable[[Path], None]], list[str]]) -> None:
    assert differs(lambda copy: None) == []


def test_what_tools_and_editors_leave_changes_nothing(
    differs: Callable[[Callable[[Path], None]], list[str]],
) -> None:
    def litter(copy: Path) -> None:
        for stray in STRAYS:
            _write(copy / stray)

    assert differs(litter) == []


def test_checkout_with_another_umask_changes_nothing(
    differs: Callable[[Callable[[Path], None]], list[str]],
) -> None:
    def close(copy: Path) -> None:
        for file in copy.rglob("*"):
            file.chmod(file.stat().st_mode & 0o700)

    assert differs(close) == []


@pytest.mark.parametrize(("name", "file"), CHANGES)
def test_real_change_is_seen_and_named(
    differs: Callable[[Callable[[Path], None]], list[str]], name: str, file: str
) -> None:
    assert differs(lambda copy: _write(copy / file)) == [name]


def test_executable_bit_is_a_change(
    differs: Callable[[Callable[[Path], None]], list[str]],
) -> None:
    assert differs(lambda copy: (copy / "roles/base/tasks/main.yml").chmod(0o755)) == ["role base"]


def test_a_shared_part_is_an_input_of_every_module_that_uses_it(
    differs: Callable[[Callable[[Path], None]], list[str]],
) -> None:
    changed = differs(lambda copy: _write(copy / PLUGINS / "module_utils/outcome.py"))
    users = ("accounts", "apply", "command", "files", "live", "packages", "sysctl", "units")
    assert changed == [f"module {m}" for m in users]


@pytest.mark.parametrize(
    "file", ["modules/helm_release.py", "modules/another.py", "module_utils/helm.py"]
)
def test_a_module_the_stage_does_not_use_is_no_input_of_it(
    differs: Callable[[Callable[[Path], None]], list[str]], file: str
) -> None:
    assert differs(lambda copy: _write(copy / PLUGINS / file)) == []


def test_digests_stay_those_that_receipts_on_hosts_hold() -> None:
    digests = Digests(b"salt", Shared())
    kept = {
        "operator": "c00d88e0768c",
        22: "1488164164d8",
        True: "88eaa0ce1416",
        None: "502d7ab19b0b",
        ("a", "b"): "bfe7bfcbe60b",
    }
    assert {value: digests.of(value)[:12] for value in kept} == kept
    nested = {"b": [1.5], "a": {"c": False}}
    assert digests.of(nested)[:12] == "1ae3f0005f39", "every host would be deployed anew"


def test_what_is_counted_is_what_ansible_would_load() -> None:
    """Calls by the tasks themselves, shared parts by Python's own imports."""
    plugins = data.root() / PLUGINS
    # Playbooks of others read their hosts by plugin inventory; a deployment never loads it.
    assert {f.name for f in plugins.iterdir() if f.is_dir()} - {"__pycache__", "inventory"} == {
        "action",
        "callback",
        "modules",
        "module_utils",
        "plugin_utils",
        "strategy",
    }
    for stage in STAGES:
        counted = inputs_of(stage, data.root(), {}, Digests(b"salt", Shared()))
        modules = {name for role in stage.ansible_roles for name in called(data.root(), role)}
        assert {f"module {m}" for m in modules} == {n for n in counted if n.startswith("module ")}
    for module in plugins.glob("modules/*.py"):
        assert _parts(plugins, module.stem) == loaded(plugins, module.stem)


RESOURCES = {file.stem for file in (data.root() / PLUGINS / "module_utils/resources").glob("*.py")}


def called(root: Path, role: str) -> Iterator[str]:
    """Modules of ours that the role's tasks name as their key, blocks and entries of apply included."""
    for file in (root / "roles" / role).rglob("*.yml"):
        if "molecule" not in file.parts:
            yield from _keys(yaml.safe_load(file.read_text()))


def _keys(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if str(key).startswith("appliance.host."):
                yield str(key).rpartition(".")[2]
            if key == "resources" and isinstance(value, list):
                yield from (word for entry in value for word in RESOURCES.intersection(entry))
            yield from _keys(value)
    elif isinstance(node, list):
        for item in node:
            yield from _keys(item)


def loaded(plugins: Path, module: str) -> set[Path]:
    """Files of a module, by what Python would import."""
    found: set[Path] = set()
    left = {
        file
        for kind in ("modules", "action", "module_utils/resources")
        if (file := plugins / kind / f"{module}.py").is_file()
    }
    while left:
        found |= left
        names = {name for file in left for name in _imports(file)}
        left = {
            file
            for name in names
            for folder in ("module_utils", "plugin_utils")
            if (file := plugins / folder / f"{name}.py").is_file()
        } - found
    return found


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and "appliance.host" in (node.module or ""):
            yield from (*str(node.module).split("."), *(alias.name for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (part for alias in node.names for part in alias.name.split("."))
