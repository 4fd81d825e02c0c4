"""Renders a role's templates on the controller and hands them to the host in one call."""

from __future__ import annotations

import base64
import binascii
import json
import os
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.template import trust_as_template

JINJA = {"trim_blocks": True, "lstrip_blocks": True}

HERE = ("src", "content", "content_base64", "template")
"""Keys of a file that only the controller needs."""


def arguments(
    task: dict[str, Any], items: list[dict[str, Any]], contents: dict[str, bytes]
) -> dict[str, Any]:
    """What the module is given: all contents in one argument, which Ansible never logs."""
    files = [{key: item[key] for key in item if key not in HERE} for item in items]
    packed = {path: base64.b64encode(data).decode() for path, data in contents.items()}
    return {**task, "files": files, "contents": json.dumps(packed)}


def inline(item: dict[str, Any]) -> bytes | None:
    """The content that stands in the task itself, if any does."""
    if item.get("content_base64") is None:
        return None if item.get("content") is None else str(item["content"]).encode()
    try:
        return base64.b64decode(item["content_base64"], validate=True)
    except (binascii.Error, ValueError):
        raise AnsibleActionFail(f"{item.get('path')}: content_base64 is not base64") from None


class ActionModule(ActionBase):  # type: ignore[misc]
    """The controller's half of appliance.host.files."""

    _requires_connection = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Render, then run the module once."""
        variables = dict(task_vars or {})
        result: dict[str, Any] = super().run(tmp, variables)
        items = [dict(item) for item in self._task.args.get("files") or []]
        contents = {
            str(item.get("path", "")): self._content(item, variables)
            for item in items
            if item.get("state", "file") != "absent"
        }
        done = self._execute_module(
            "appliance.host.files",
            module_args=arguments(self._task.args, items, contents),
            task_vars=variables,
        )
        return {**result, **done}

    def _content(self, item: dict[str, Any], variables: dict[str, Any]) -> bytes:
        here = inline(item)
        return self._from_source(item, variables) if here is None else here

    def _from_source(self, item: dict[str, Any], variables: dict[str, Any]) -> bytes:
        path = str(item.get("path", ""))
        rendered = item.get("template", True)
        source = item.get("src") or path.lstrip("/") + (".j2" if rendered else "")
        try:
            found = self._find_needle("templates" if rendered else "files", source)
            text = str(self._loader.get_text_file_contents(found))
            return (self._render(text, found, variables) if rendered else text).encode()
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
