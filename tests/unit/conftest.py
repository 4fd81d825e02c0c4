"""Unit tests see no rack of the machine they run on, and nothing of the shell they were started from."""

import errno
import os
import re
import socket
from collections.abc import Callable, Generator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from appliance.lab import spec
from appliance.models.result import CheckResult, Judgement

OF_PEOPLE = (
    "ANSIBLE_VAULT_PASSWORD_FILE",
    "COLUMNS",
    "FORCE_COLOR",
    "KUBECONFIG",
    "LINES",
    "NO_COLOR",
)


@pytest.fixture(autouse=True)
def no_rack(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where none was ever raised."""
    monkeypatch.setattr(spec, "STATE_ROOT", Path(tmp_path_factory.getbasetemp()) / "no-rack")


@pytest.fixture(autouse=True)
def plain_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that can do colours, no width of its own, and none of what people export for themselves."""
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in OF_PEOPLE:
        monkeypatch.delenv(name, raising=False)


BLOCKED = "unit tests have no network (tests/unit/conftest.py)"


def _is_local(family: int, address: Any) -> bool:
    if family not in (socket.AF_INET, socket.AF_INET6):
        return True
    host = str(address[0]).partition("%")[0]
    if host in ("", "localhost"):
        return True
    try:
        found = ip_address(host)
    except ValueError:
        return False
    return found.is_loopback or found.is_unspecified


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without a network: connections to other hosts fail, and their names are not resolved."""

    def guarded(name: str) -> Callable[..., Any]:
        real = getattr(socket.socket, name)

        def call(self: socket.socket, address: Any, *more: Any) -> Any:
            # A datagram socket that is connected sends nothing: it asks the kernel for a route.
            if self.type & socket.SOCK_STREAM and not _is_local(self.family, address):
                raise OSError(errno.ENETUNREACH, BLOCKED)
            return real(self, address, *more)

        return call

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, guarded(name))
    resolve = socket.getaddrinfo

    def resolved(host: Any, *args: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name is not None and not _is_local(socket.AF_INET, (name,)):
            try:
                ip_address(str(name).partition("%")[0])
            except ValueError:
                raise socket.gaierror(socket.EAI_AGAIN, BLOCKED) from None
        return resolve(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)


FALSE_PLURAL = re.compile(
    r"(?<![\w.,/:=-])(?<!of )1 (?!GiB )(?:[A-Za-z-]+ ){0,2}?"
    r"(?:errors|hosts|pods|ports|GPUs|devices|drives|cables|adapters|nodes|workloads|images|messages|days|parameters|links"
    r"|lines|values|steps|checks|cores|sockets|disks|instances|times|tests|transfers|inodes|samples|units|entries|switches"
    r"|HCAs|lanes|NVLinks|files|packages|processes|requests|answers|rules|alerts|were|are|have)\b(?!/s)"
)


@pytest.fixture(autouse=True)
def one_is_no_plural(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a check says in any of these tests: of one error it does not say "1 errors"."""
    made = Judgement.of

    def read(judgement: Judgement, check_id: str) -> CheckResult:
        result = made(judgement, check_id)
        for text in (result.cause, result.evidence):
            found = FALSE_PLURAL.search(text)
            assert not found, f"{check_id}: {found[0] if found else ''!r} in {text!r}"
        return result

    monkeypatch.setattr(Judgement, "of", read)


FOLDER = Path.cwd()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, Any, Any]:
    """A test that leaves the process in another folder changes what later ones find."""
    yield
    left = os.getcwd()  # noqa: PTH109 - a folder that is gone has no Path
    os.chdir(FOLDER)
    assert left == str(FOLDER), f"the test left the process in {left}"
