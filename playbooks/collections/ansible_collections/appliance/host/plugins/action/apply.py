"""Settles a role's resources on the controller (conditions, variables, templates) and hands them to the host in one call."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.appliance.host.plugins.plugin_utils.rendering import Renderer, digests

FACTS = ("distribution", "distribution_major_version", "os_family")
GATHER = {"gather_subset": ["!all", "!min", "distribution", "platform"]}
OF_ENTRY = frozenset(
    {"name", "when", "vars", "loop", "after_change", "ignore_failure", "pauses_for"}
)
"""Keys of an entry beside the one that names its resource."""


def resource_of(entry: dict[str, Any]) -> str:
    """The name of an entry's resource. Raises AnsibleActionFail where it has none, or two."""
    names = [key for key in entry if key not in OF_ENTRY]
    if len(names) != 1:
        said = ", ".join(names) or "none"
        raise AnsibleActionFail(f"{entry.get('name')}: one resource is wanted, not {said}")
    return str(names[0])


def phases(role: str, tags: Iterable[str]) -> set[str]:
    """The phases that tags as "storage:install" choose; empty for all of them."""
    return {tag.partition(":")[2] for tag in tags if tag.startswith(f"{role}:")}


def known_entries(said: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """A host's answer with no entry but those it was given: their names go to the screen and the journal."""
    done = said.get("done")
    told = done if isinstance(done, dict) else {}
    kept = {name: told[name] for name in names if isinstance(told.get(name), dict)}
    named = {key: said[key] for key in ("entry", "paused") if said.get(key) in names}
    rest = {key: value for key, value in said.items() if key not in {"done", "entry", "paused"}}
    return {**rest, **named, "done": kept}


class ActionModule(ActionBase):  # type: ignore[misc]
    """The controller's half of appliance.host.apply."""

    _requires_connection = True
    _VALID_ARGS = frozenset({"resources", "refuse"})

    @classmethod
    def finalize_task_arg(cls, name: str, value: Any, templar: Any, context: Any) -> Any:
        """Leaves templates as they are: an entry whose condition is false may speak of what is not defined."""
        return value

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the module once."""
        variables = dict(task_vars or {})
        result: dict[str, Any] = super().run(tmp, variables)
        learned = self._facts(variables)
        variables["ansible_facts"] = {**variables.get("ansible_facts", {}), **learned}
        variables.update(self._of_distribution(variables))
        # Each environment of Jinja looks for its filters anew, on disk: one serves all that have the same variables.
        templar = self._with(variables)
        refusal = self._refusal(templar)
        if refusal:
            return {**result, "failed": True, "msg": refusal}
        resources = list(self._settled(variables, templar))
        names = [one["name"] for one in resources]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise AnsibleActionFail(f'two entries are named "{twice}"; in a loop, name the item')
        done = self._done(resources, variables) if resources else {"resources": [], "done": {}}
        facts = {"ansible_facts": learned} if learned else {}
        return {**result, **known_entries(done, names), **facts}

    def _done(self, resources: list[dict[str, Any]], variables: dict[str, Any]) -> dict[str, Any]:
        """The module's answer."""
        given = {"resources": json.dumps(resources), "role": str(variables.get("role_name", ""))}
        answer: dict[str, Any] = self._execute_module(
            "appliance.host.apply", given, task_vars=variables
        )
        return answer

    def _facts(self, variables: dict[str, Any]) -> dict[str, Any]:
        """What of the host its variables hang on, asked of it where the role needs that and no play gathered it."""
        known = variables.get("ansible_facts", {})
        if all(name in known for name in FACTS):
            return {}
        if system := variables.get("appliance_system"):
            return dict(system)
        if not _by_distribution(variables):
            return {}
        said = self._execute_module("ansible.builtin.setup", GATHER, task_vars=variables)
        if said.get("failed"):
            raise AnsibleActionFail(f"the host's facts cannot be read: {said.get('msg')}")
        return {key.removeprefix("ansible_"): v for key, v in said["ansible_facts"].items()}

    def _of_distribution(self, variables: dict[str, Any]) -> dict[str, Any]:
        """The role's lists for the host's distribution: of its release, of itself, or of its family."""
        if not _by_distribution(variables):
            return {}
        name, release, family = (str(variables["ansible_facts"][fact]) for fact in FACTS)
        for stem in (f"{name}-{release}", name, family):
            # A host says these names: none leads out of the folder.
            path = os.path.join(_vars(variables), os.path.basename(stem) + ".yml")
            if os.path.isfile(path):
                return dict(self._loader.load_from_file(path, trusted_as_template=True) or {})
        role = variables.get("role_name")
        raise AnsibleActionFail(
            f"role {role} supports neither {name} {release} nor family {family}"
        )

    def _with(self, variables: dict[str, Any]) -> Any:
        return self._templar.copy_with_new_env(available_variables=variables)

    def _refusal(self, templar: Any) -> str:
        """The message of the first condition that holds, before the host is touched; "" where none does."""
        for one in self._task.args.get("refuse") or []:
            if _holds(templar, one["when"]):
                return str(templar.template(one["message"])).strip()
        return ""

    def _settled(self, variables: dict[str, Any], common: Any) -> Iterator[dict[str, Any]]:
        role = str(variables.get("role_name", ""))
        chosen = set(variables.get(f"{role}_phases") or [])
        chosen = chosen or phases(role, variables.get("ansible_run_tags", []))
        for entry in self._task.args.get("resources") or []:
            if chosen and entry.get("name", "").partition(" | ")[0] not in chosen:
                continue
            own = {**variables, **(entry.get("vars") or {})}
            templar = self._with(own) if entry.get("vars") else common
            if "loop" not in entry:
                yield from self._entry(entry, own, templar)
                continue
            for item in templar.template(entry["loop"]):
                round_ = {**own, "item": item}
                yield from self._entry(entry, round_, self._with(round_))

    def _entry(
        self, entry: dict[str, Any], own: dict[str, Any], templar: Any
    ) -> Iterator[dict[str, Any]]:
        """The entry as the module is given it; nothing where its condition is false."""
        if not _holds(templar, entry.get("when", True)):
            return
        kind = resource_of(entry)
        given = templar.template(entry[kind]) or {}
        if kind == "files":
            asked = partial(digests, self)
            renderer = Renderer(self._find_needle, self._loader, templar, own, asked)
            given = renderer.files(given)
        yield {
            "name": str(templar.template(entry.get("name", kind))),
            "resource": kind,
            "arguments": given,
            "after_change": list(entry.get("after_change") or []),
            "ignore_failure": bool(entry.get("ignore_failure", False)),
            "pauses_for": str(entry.get("pauses_for") or ""),
        }


def _vars(variables: dict[str, Any]) -> str:
    return os.path.join(str(variables.get("role_path", "")), "vars")


def _by_distribution(variables: dict[str, Any]) -> bool:
    """Whether the role has lists that differ by distribution."""
    folder = _vars(variables)
    return os.path.isdir(folder) and bool(set(os.listdir(folder)) - {"main.yml"})


def _holds(templar: Any, condition: Any) -> bool:
    conditions = condition if isinstance(condition, list) else [condition]
    return all(bool(templar.evaluate_conditional(one)) for one in conditions)
