"""Root's work on files goes by descriptors wherever others can change a folder on the way (module_utils/places.py says how)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml  # noqa: TID251 - reads the roles' own files

CHECKOUT = Path(__file__).parents[2]
PLUGINS = CHECKOUT / "playbooks/collections/ansible_collections/appliance/host/plugins"
BY_PATH = frozenset(
    {
        *("chown", "lchown", "chmod", "lchmod", "unlink", "remove", "rmdir", "removedirs", "mkdir"),
        *("makedirs", "rename", "renames", "replace", "symlink", "link", "open", "mkfifo", "mknod"),
        *("truncate", "utime", "setxattr", "removexattr", "chflags"),
    }
)
FOLDERS = frozenset({"dir_fd", "src_dir_fd"})
HANDLES = frozenset({"handle", "fd", "at"})
"""What descriptors are called: os.truncate and the like take one in the place of a path."""
ROOTS_OWN = {
    "module_utils/resources/gpu_driver.py": "its note in /var/lib/appliance",
    "module_utils/resources/slurm_containers.py": "/var/lib/appliance, /usr/local/lib/slurm and /etc/slurm; a new folder of mkdtemp(3)",
    "module_utils/resources/containerd_images.py": "its list in /var/lib/appliance",
    "module_utils/resources/kubeadm_ticket.py": "a new file of mkstemp(3) in memory",
    "module_utils/resources/kubeadm_member.py": "a new file of mkstemp(3) in memory",
    "module_utils/resources/kubeadm_control.py": "its stamp in /var/lib/appliance",
    "module_utils/resources/kubernetes_upgrade.py": "/etc/kubernetes and its notes in /var/lib/appliance",
    "module_utils/resources/ssh_for_jobs.py": "/etc/pam.d and its note in /var/lib/appliance",
    "module_utils/resources/signing_key.py": "keyrings below /etc and /usr/share",
    "module_utils/resources/sysctl.py": "/proc/sys",
    "module_utils/resources/homes.py": "a folder that it has just made, below the descriptor of one that only root can write to",
    "module_utils/apt.py": "dpkg's lock",
    "module_utils/calls.py": "locks in a folder of /run that root alone can open",
    "module_utils/helm.py": "its state and locks, in folders of root's",
}
"""Modules that work by path, in places that root alone can change."""
PLACES = re.compile(
    r"/home\b|/scratch|/tmp\b|/var/tmp|/dev/shm|/mnt|_scratch\b|scratch\b|homes|containers\.at|HOME\b|TMPDIR|~/"
)
COMMAND = re.compile(
    r"\b(mkdir|chown|chmod|chgrp|cp|install|mv|ln|rm|touch|tee|tar|rsync)\s+[-\"'$/]"
)
OF_JOBS = "slurm/templates/etc/slurm/"
"""Places of jobs, which have tests of their own."""
FILE_MODULES = re.compile(
    r"ansible\.builtin\.(file|copy|template|unarchive|get_url|lineinfile|blockinfile|replace|assemble)\b"
)


def works_by_path(tree: ast.AST) -> Iterator[str]:
    """Calls that change what a path leads to, or make something there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in {"os", "shutil", "pathlib"}:
            yield f"{node.lineno}: from {node.module} import"
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        first = ast.unparse(node.args[0]) if node.args else ""
        by_folder = any(word.arg in FOLDERS for word in node.keywords)
        if called.startswith("os.") and called[3:] in BY_PATH:
            if not by_folder and first not in HANDLES:
                yield f"{node.lineno}: {called}({first})"
        elif called.startswith(("shutil.", "tempfile.")) and called != "shutil.which":
            yield f"{node.lineno}: {called}({first})"
        elif called == "open" and _writes(node):
            yield f"{node.lineno}: open({first})"


def _writes(call: ast.Call) -> bool:
    modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
    return any(not isinstance(m, ast.Constant) or set(str(m.value)) & set("wax+") for m in modes)


def modules() -> list[Path]:
    return sorted(
        path
        for path in PLUGINS.rglob("*.py")
        if "module" in str(path.relative_to(PLUGINS).parts[0])
    )


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.stem)
def test_modules_work_by_descriptors_but_in_places_of_roots_own(path: Path) -> None:
    name = str(path.relative_to(PLUGINS))
    if name in ROOTS_OWN or name == "module_utils/places.py":
        return
    found = list(works_by_path(ast.parse(path.read_text("utf-8"))))
    assert found == [], f"{name}: use module_utils/places.py, or say in ROOTS_OWN where it works"


def test_every_exception_is_a_module() -> None:
    assert {*ROOTS_OWN} <= {str(path.relative_to(PLUGINS)) for path in modules()}


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("os.chown(path, 0, 0)", True),
        ("os.chmod(f'{home}/.ssh', 0o700)", True),
        ("os.fchmod(handle, 0o700)", False),
        ("os.unlink(name, dir_fd=at)", False),
        ("os.replace(a, b, src_dir_fd=x, dst_dir_fd=y)", False),
        ("os.replace(a, b)", True),
        ("os.makedirs(path, exist_ok=True)", True),
        ("shutil.rmtree(path)", True),
        ("open(path, 'w')", True),
        ("open(path, mode='ab')", True),
        ("open(path)", False),
        ("from os import chown", True),
    ],
)
def test_work_by_path_is_found(text: str, is_told: bool) -> None:
    assert bool(list(works_by_path(ast.parse(text)))) is is_told


def by_commands(text: str) -> list[str]:
    """Lines of a shell's that change something in a place of users."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if COMMAND.search(line) and PLACES.search(line)]


def by_tasks(tasks: object) -> list[str]:
    """Names of tasks that have Ansible's own modules work in a place of users, where they follow links."""
    found = []
    for task in tasks if isinstance(tasks, list) else ():
        found += [
            name for part in ("block", "rescue", "always") for name in by_tasks(task.get(part))
        ]
        for module, given in task.items():
            at = (
                [given.get(key) for key in ("path", "dest")] if isinstance(given, dict) else [given]
            )
            if FILE_MODULES.fullmatch(module) and PLACES.search(" ".join(map(str, at))):
                found.append(task["name"])
    return found


def test_templates_and_tasks_leave_places_of_users_alone() -> None:
    found = {}
    for path in sorted((CHECKOUT / "roles").rglob("*")):
        name = str(path.relative_to(CHECKOUT / "roles"))
        told = path.suffix in {".j2", ".sh", ".yml"} and "molecule" not in path.parts
        if told and not name.startswith(OF_JOBS):
            text = path.read_text("utf-8")
            tasks = by_tasks(yaml.safe_load(text)) if path.parent.name == "tasks" else []
            found[name] = by_commands(text) + tasks
    assert {name: told for name, told in found.items() if told} == {}


def test_a_task_in_a_place_of_users_is_found() -> None:
    inner = {"name": "b", "ansible.builtin.copy": {"dest": "/home/bob/x", "src": "x"}}
    tasks = [
        {"name": "a", "ansible.builtin.file": {"path": "{{ slurm_scratch }}/x"}},
        {"name": "block", "block": [inner]},
        {"name": "c", "ansible.builtin.copy": {"dest": "/etc/x", "src": "/home/x"}},
    ]
    assert by_tasks(tasks) == ["a", "b"]


def test_a_command_in_a_place_of_users_is_found() -> None:
    assert by_commands('mkdir -p -m 0700 "{{ slurm_scratch }}/job-1"\nmkdir -p /run/x\n') == [
        'mkdir -p -m 0700 "{{ slurm_scratch }}/job-1"'
    ]
    assert by_commands("chown -R bob: /home/bob\ncp -a /etc/skel $HOME\n")
