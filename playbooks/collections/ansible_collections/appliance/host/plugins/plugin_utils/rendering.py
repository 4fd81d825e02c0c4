"""What of a role's files only the controller can read: its templates, rendered with a task's variables."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import shlex
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
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


SUM = re.compile(r"^([0-9a-f]{64})  (/.*)$", re.M)
"""A line of sha256sum(1)."""


def digests(action: Any, paths: list[str]) -> dict[str, str]:
    """SHA-256 of files of the host, by path; those that cannot be read are left out."""
    command = shlex.join(["sha256sum", "--", *paths])
    said = action._low_level_execute_command(command)
    return {path: digest for digest, path in SUM.findall(str(said.get("stdout", "")))}


class Renderer:
    """Renders for one action: ``find`` is its ``_find_needle``, ``loader`` reads files, ``templar`` has the variables.

    ``digests`` are those of files of the host by path: what is pinned and there already is not sent.
    """

    def __init__(
        self,
        find: Callable[[str, str], str],
        loader: Any,
        templar: Any,
        variables: dict[str, Any],
        digests: Callable[[list[str]], dict[str, str]],
    ) -> None:
        self._find = find
        self._loader = loader
        self._templar = templar
        self._variables = variables
        self._digests = digests
        self._templars: dict[str, Any] = {}

    def files(self, task: dict[str, Any]) -> dict[str, Any]:
        """Arguments of appliance.host.files, as its module is given them. Raises AnsibleActionFail."""
        items = [dict(item) for item in task.get("files") or []]
        wanted = [item for item in items if item.get("state", "file") != "absent"]
        there = self._there({item["path"]: item["sha256"] for item in wanted if item.get("sha256")})
        contents = {
            path: self.content(item)
            for item in wanted
            if (path := str(item.get("path", ""))) not in there
        }
        return arguments(task, items, contents)

    def _there(self, pinned: dict[str, str]) -> set[str]:
        found = self._digests(list(pinned)) if pinned else {}
        return {path for path, digest in pinned.items() if found.get(path) == digest}

    def content(self, item: dict[str, Any]) -> bytes:
        """Of one file. Raises AnsibleActionFail."""
        here = inline(item)
        return self._from_source(item) if here is None else here

    def _from_source(self, item: dict[str, Any]) -> bytes:
        path = str(item.get("path", ""))
        rendered = item.get("template", True)
        source = item.get("src") or path.lstrip("/") + (".j2" if rendered else "")
        try:
            found = self._find("templates" if rendered else "files", source)
            if item.get("sha256"):
                return _pinned(found, item["sha256"])
            text = str(self._loader.get_text_file_contents(found))
            return (self._render(text, found) if rendered else text).encode()
        except AnsibleError as error:
            raise AnsibleActionFail(f"{path}: {source}: {error}") from error
        except OSError as error:
            raise AnsibleActionFail(f"{path}: {source}: {error.strerror}") from error

    def _render(self, text: str, found: str) -> str:
        templar = self._templar_of(os.path.dirname(found))
        done = templar.template(trust_as_template(text), escape_backslashes=False, overrides=JINJA)
        return "" if done is None else str(done)

    def _templar_of(self, folder: str) -> Any:
        """What renders templates of a folder; each new one looks for its filters anew, on disk."""
        if folder not in self._templars:
            search = [folder, *self._variables.get("ansible_search_path", [])]
            self._templars[folder] = self._templar.copy_with_new_env(
                searchpath=[*(os.path.join(place, "templates") for place in search), *search],
                available_variables=self._variables,
            )
        return self._templars[folder]


def _pinned(place: str, wanted: str) -> bytes:
    data = Path(place).read_bytes()
    found = sha256(data).hexdigest()
    if found != wanted:
        raise AnsibleActionFail(f"its digest is {found}, {wanted} is wanted")
    return data
