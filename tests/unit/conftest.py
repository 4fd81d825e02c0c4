"""Unit tests see no rack of the machine they run on, and nothing of the shell they were started from."""

import re
from pathlib import Path

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
