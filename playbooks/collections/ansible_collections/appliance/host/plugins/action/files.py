"""Renders a role's templates on the controller and hands them to the host in one call."""

from __future__ import annotations

import os
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.template import trust_as_template

JINJA = {"trim_blocks": True, "lstrip_blocks": True}


class ActionModule(ActionBase):
    """The controller's half of appliance.host.files."""

    _requires_connection = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Render, then run the module once."""
        variables = dict(task_vars or {})
        result: dict[str, Any] = super().run(tmp, variables)
        arguments = dict(self._task.args)
        arguments["files"] = [
            self._with_content(dict(item), variables) for item in arguments.get("files") or []
        ]
        done = self._execute_module(
            "appliance.host.files", module_args=arguments, task_vars=variables
        )
        return {**result, **done}

    def _with_content(self, item: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        path = str(item.get("path", ""))
        if item.get("state", "file") == "absent":
            return item
        if item.get("content") is None:
            item["content"] = self._from_source(item, path, variables)
        item.pop("src", None)
        if item.get("secret"):
            item["secret_content"] = item.pop("content")
        return item

    def _from_source(self, item: dict[str, Any], path: str, variables: dict[str, Any]) -> str:
        rendered = item.get("template", True)
        source = item.get("src") or path.lstrip("/") + (".j2" if rendered else "")
        try:
            found = self._find_needle("templates" if rendered else "files", source)
            text = str(self._loader.get_text_file_contents(found))
            return self._render(text, found, variables) if rendered else text
        except AnsibleError as error:
            raise AnsibleActionFail(f"{path}: {source}: {error}") from error

    def _render(self, text: str, found: str, variables: dict[str, Any]) -> str:
        search = [os.path.dirname(found), *variables.get("ansible_search_path", [])]
        templar = self._templar.copy_with_new_env(
            searchpath=[*(os.path.join(place, "templates") for place in search), *search],
            available_variables=variables,
        )
        done = templar.template(trust_as_template(text), escape_backslashes=False, overrides=JINJA)
        return "" if done is None else str(done)
