"""Renders a role's templates on the controller and hands them to the host in one call."""

from __future__ import annotations

from functools import partial
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.appliance.host.plugins.plugin_utils.rendering import Renderer, digests


class ActionModule(ActionBase):  # type: ignore[misc]
    """The controller's half of appliance.host.files."""

    _requires_connection = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Render, then run the module once."""
        variables = dict(task_vars or {})
        result: dict[str, Any] = super().run(tmp, variables)
        asked = partial(digests, self)
        renderer = Renderer(self._find_needle, self._loader, self._templar, variables, asked)
        done = self._execute_module(
            "appliance.host.files",
            module_args=renderer.files(self._task.args),
            task_vars=variables,
        )
        return {**result, **done}
