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
OF_ENTRY = frozenset({"name", "when", "vars", "after_change", "ignore_failure", "pauses_for"})
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
        refusal = self._refusal(variables)
        if refusal:
            return {**result, "failed": True, "msg": refusal}
        resources = list(self._settled(variables))
        done = self._execute_module(
            "appliance.host.apply",
            module_args={"resources": json.dumps(resources)},
            task_vars=variables,
        )
        facts = {"ansible_facts": learned} if learned else {}
        return {**result, **known_entries(done, [one["name"] for one in resources]), **facts}

    def _facts(self, variables: dict[str, Any]) -> dict[str, Any]:
        """What of the host its variables hang on, asked of it where no play gathered that."""
        if all(name in variables.get("ansible_facts", {}) for name in FACTS):
            return {}
        said = self._execute_module("ansible.builtin.setup", GATHER, task_vars=variables)
        if said.get("failed"):
            raise AnsibleActionFail(f"the host's facts cannot be read: {said.get('msg')}")
        return {key.removeprefix("ansible_"): v for key, v in said["ansible_facts"].items()}

    def _of_distribution(self, variables: dict[str, Any]) -> dict[str, Any]:
        """The role's lists for the host's distribution: of its release, of itself, or of its family."""
        folder = os.path.join(str(variables.get("role_path", "")), "vars")
        name, release, family = (str(variables["ansible_facts"][fact]) for fact in FACTS)
        for stem in (f"{name}-{release}", name, family):
            # A host says these names: none leads out of the folder.
            path = os.path.join(folder, os.path.basename(stem) + ".yml")
            if os.path.isfile(path):
                return dict(self._loader.load_from_file(path, trusted_as_template=True) or {})
        if os.path.isdir(folder) and set(os.listdir(folder)) - {"main.yml"}:
            role = variables.get("role_name")
            raise AnsibleActionFail(
                f"role {role} supports neither {name} {release} nor family {family}"
            )
        return {}

    def _with(self, variables: dict[str, Any]) -> Any:
        return self._templar.copy_with_new_env(available_variables=variables)

    def _refusal(self, variables: dict[str, Any]) -> str:
        """The message of the first condition that holds, before the host is touched; "" where none does."""
        templar = self._with(variables)
        for one in self._task.args.get("refuse") or []:
            if _holds(templar, one["when"]):
                return str(templar.template(one["message"])).strip()
        return ""

    def _settled(self, variables: dict[str, Any]) -> Iterator[dict[str, Any]]:
        role = str(variables.get("role_name", ""))
        chosen = set(variables.get(f"{role}_phases") or [])
        chosen = chosen or phases(role, variables.get("ansible_run_tags", []))
        for entry in self._task.args.get("resources") or []:
            if chosen and entry.get("name", "").partition(" | ")[0] not in chosen:
                continue
            own = {**variables, **(entry.get("vars") or {})}
            templar = self._with(own)
            if not _holds(templar, entry.get("when", True)):
                continue
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


def _holds(templar: Any, condition: Any) -> bool:
    conditions = condition if isinstance(condition, list) else [condition]
    return all(bool(templar.evaluate_conditional(one)) for one in conditions)
