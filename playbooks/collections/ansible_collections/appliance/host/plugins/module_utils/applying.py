"""Applies resources one after the other within one module."""

from __future__ import annotations

import contextlib
import io
import json
import traceback
from importlib import import_module
from typing import Any

from ansible.module_utils import basic
from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.calls import (
    Abandoned,
    alone,
    check_reader,
)
from ansible_collections.appliance.host.plugins.module_utils.outcome import Problem

if False:
    # Ansible packs what a module imports by name; only what a call uses is imported on the host.
    from ansible_collections.appliance.host.plugins.module_utils.resources import (  # noqa: F401
        accounts,
        answer,
        archived_program,
        command,
        containerd_images,
        coredns,
        fabric_driver,
        files,
        gpu_driver,
        helm_release,
        homes,
        kubeadm_control,
        kubeadm_member,
        kubeadm_ticket,
        kubernetes_manifests,
        kubernetes_node,
        kubernetes_upgrade,
        live,
        mig_layout,
        offline_source,
        packages,
        scratch,
        signing_key,
        slurm_accounts,
        slurm_containers,
        slurm_database,
        slurm_node,
        ssh_for_jobs,
        swap,
        sysctl,
        units,
    )

GROUND = frozenset({"accounts", "packages"})
"""Resources that bring what files name and what validates them."""
RESOURCES = "ansible_collections.appliance.host.plugins.module_utils.resources."
# One text that Ansible never logs: it holds contents of files and passwords.
SPEC = {
    "resources": {"type": "str", "required": True, "no_log": True},
    "role": {"type": "str", "default": ""},
}


def run(resource: str, arguments: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """What the module of a resource answers to these arguments, in this process."""
    given = json.dumps({"ANSIBLE_MODULE_ARGS": {**arguments, **flags}}).encode()
    before, basic._ANSIBLE_ARGS = basic._ANSIBLE_ARGS, given
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            import_module(RESOURCES + resource).main()
        return dict(json.loads(out.getvalue()))
    except Exception as error:  # noqa: BLE001 - a defect of one resource; what was done before it must be told
        said = f"{type(error).__name__}: {error}"
        return {"failed": True, "msg": said, "traceback": traceback.format_exc()}
    finally:
        basic._ANSIBLE_ARGS = before


class Run:
    """What one call did."""

    def __init__(self, flags: dict[str, Any]) -> None:
        self._flags = flags
        self.done: dict[str, dict[str, Any]] = {}
        self.warnings: list[Any] = []
        self._lacks_ground = False

    def apply(self, entry: dict[str, Any]) -> dict[str, Any]:
        """One entry; its answer, empty where nothing before it changed what it waits for."""
        awaited = entry["after_change"]
        if awaited and not any(self.done.get(name, {}).get("changed") for name in awaited):
            return {}
        lacking = self._lacking(entry["arguments"])
        given = self._filled(entry["arguments"])
        if entry["resource"] == "files" and self._lacks_ground:
            given["rehearse"] = False
        said: dict[str, Any] = (
            {"failed": True, "msg": lacking}
            if lacking
            else run(entry["resource"], given, self._flags)
        )
        in_vain = self._flags.get("_ansible_check_mode") and said.get("changed")
        self._lacks_ground |= bool(in_vain and entry["resource"] in GROUND)
        said.pop("invocation", None)
        self.warnings += said.pop("warnings", [])
        self.done[entry["name"]] = said
        return said

    def owes(self, entries: list[dict[str, Any]]) -> bool:
        """Whether one of these entries waits for a change that was made."""
        made = {name for name, said in self.done.items() if said.get("changed")}
        return any(made.intersection(entry["after_change"]) for entry in entries)

    def _lacking(self, arguments: dict[str, Any]) -> str:
        """Which entry before did not run though its answer is asked for: nothing is compared with what is not known."""
        asked = [v["answer_of"] for v in arguments.values() if _is_answer(v)]
        missing = [name for name in asked if name not in self.done]
        return f'needs the answer of "{missing[0]}", which did not run' if missing else ""

    def _filled(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments, with what an entry before answered where they ask for it: {answer_of: its name, key: ...}."""
        return {
            name: self.done.get(value["answer_of"], {}).get(value["key"])
            if _is_answer(value)
            else value
            for name, value in arguments.items()
        }

    def outcome(self) -> dict[str, Any]:
        """What Ansible is told of all of them."""
        answers = list(self.done.values())
        told = [str(one["tells"]) for one in answers if one.get("tells")]
        return {
            "changed": any(one.get("changed") for one in answers),
            "resources": [r for one in answers for r in one.pop("resources", [])],
            "diff": [d for one in answers for d in _listed(one.pop("diff", []))],
            **({"tells": "; ".join(told)} if told else {}),
            "done": self.done,
        }


def _is_answer(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"answer_of", "key"}


def _listed(diff: Any) -> list[Any]:
    return diff if isinstance(diff, list) else [diff]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    if module.check_mode:
        _apply_all(module)
    try:
        with alone(module.params["role"] or "none"):
            _apply_all(module)
    except Problem as problem:
        module.fail_json(msg=str(problem))
    except Abandoned:
        raise SystemExit(1) from None


def _apply_all(module: Any) -> None:
    raw = json.loads(basic._ANSIBLE_ARGS)["ANSIBLE_MODULE_ARGS"]
    whole = Run({key: value for key, value in raw.items() if key.startswith("_ansible_")})
    entries = json.loads(module.params["resources"])
    for number, entry in enumerate(entries):
        # The next call would find nothing changed, and leave out what waits for a change.
        if not module.check_mode and not whole.owes(entries[number:]):
            check_reader()
        said = whole.apply(entry)
        while whole.warnings:
            module.warn(str(whole.warnings.pop(0)))
        if said.get("failed") and not entry["ignore_failure"]:
            told: dict[str, Any] = whole.outcome()
            told.update({key: said[key] for key in ("msg", "traceback") if key in said})
            module.fail_json(entry=entry["name"], **told)
        if entry["pauses_for"] and said.get(entry["pauses_for"]) and not module.check_mode:
            module.exit_json(paused=entry["name"], **whole.outcome())
    module.exit_json(**whole.outcome())
