"""Runs the collection's modules in this process, on folders of the test's own."""

import json
import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.collection_host import PLUGINS, Host, Run


@pytest.fixture
def plugin() -> Callable[[str], ModuleType]:
    """Imports a plugin of the collection, as "module_utils.apt"."""
    return lambda name: import_module(f"{PLUGINS}.{name}")


@pytest.fixture(autouse=True)
def locks(
    plugin: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Path:
    """The folder of locks of appliance.host.apply, here one of the test's own."""
    monkeypatch.setattr(plugin("module_utils.calls"), "LOCKS", str(tmp_path / "locks"))
    return tmp_path / "locks"


@pytest.fixture
def run(plugin: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs a module's main with arguments; gives what it would answer to Ansible."""
    from ansible.module_utils.testing import patch_module_args

    umask = os.umask(0o022)

    def once(
        name: str, /, check: bool = False, diff: bool = False, **arguments: Any
    ) -> dict[str, Any]:
        given = {**arguments, "_ansible_check_mode": check, "_ansible_diff": diff}
        with patch_module_args(given), pytest.raises(SystemExit):
            plugin(f"modules.{name}").main()
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    yield once
    os.umask(umask)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    """Stands in for every program a module starts."""
    from ansible.module_utils.basic import AnsibleModule

    pretended = Host()
    monkeypatch.setattr(AnsibleModule, "run_command", lambda *a, **k: pretended(*a, **k))
    return pretended
