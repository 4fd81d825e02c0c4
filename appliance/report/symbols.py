"""One sign, one word and one colour for every state, so that no state depends on colour alone."""

from dataclasses import dataclass

from appliance.models.acceptance import GateState
from appliance.models.plan import Action, HostStage
from appliance.models.result import Status, Verdict
from appliance.models.run import RunRecord, StageState
from appliance.text import plural


@dataclass(frozen=True)
class Sign:
    """``mark`` is one character, ``plain`` its ASCII replacement, ``style`` a rich style."""

    mark: str
    plain: str
    word: str
    style: str

    def glyph(self, ascii_only: bool = False) -> str:
        """Return the mark that this kind of terminal can show."""
        return self.plain if ascii_only else self.mark


STATUS = {
    Status.PASS: Sign("✓", "+", "passed", "green"),
    Status.WARN: Sign("!", "!", "warning", "yellow"),
    Status.FAIL: Sign("✗", "x", "FAILED", "bold red"),
    Status.ERROR: Sign("E", "E", "ERROR", "bold red"),
    Status.SKIP: Sign("-", "-", "skipped", "dim"),
    Status.NOT_ASSESSED: Sign("?", "?", "not assessed", "cyan"),
}

_MANY = {Status.WARN: "warnings", Status.ERROR: "errors"}


def amount(status: Status, count: int) -> str:
    """``49 passed``, ``1 warning``, ``2 warnings``."""
    word = STATUS[status].word.lower()
    return plural(count, word, _MANY.get(status, word))


STATE = {
    StageState.DONE: Sign("✓", "+", "done", "green"),
    StageState.SKIPPED: Sign("·", ".", "nothing to do", "dim"),
    StageState.FAILED: Sign("✗", "x", "FAILED", "bold red"),
    StageState.BLOCKED: Sign("#", "#", "blocked", "yellow"),
    StageState.NOT_RUN: Sign("-", "-", "not run", "dim"),
}

GATE = {
    GateState.PASSED: Sign("✓", "+", "passed", "green"),
    GateState.OPEN: Sign("?", "?", "open", "yellow"),
    GateState.FAILED: Sign("✗", "x", "FAILED", "bold red"),
}

VERDICT = {
    Verdict.PASSED: Sign("✓", "+", "PASSED", "bold green"),
    Verdict.FAILED: Sign("✗", "x", "FAILED", "bold red"),
    Verdict.INCOMPLETE: Sign("?", "?", "INCOMPLETE", "bold yellow"),
}

IN_PART = Sign("✓", "+", "PASSED IN PART", "bold green")


def verdict_sign(record: RunRecord) -> Sign:
    """Return the sign of a run's verdict; a partial run never claims that everything passed."""
    is_part = record.narrowed and record.verdict is Verdict.PASSED
    return IN_PART if is_part else VERDICT[record.verdict]


NOTHING = Sign("·", ".", "nothing to do", "dim")
NEW = Sign("+", "+", "new", "green")
CHANGE = Sign("~", "~", "change", "yellow")
REBOOT = Sign("!", "!", "change with reboot", "bold red")
NOT_CONCERNED = Sign("-", "-", "not concerned", "dim")
BLOCKED = Sign("#", "#", "blocked", "yellow")
UNKNOWN = Sign("?", "?", "unknown", "cyan")
PLANNED = (NOTHING, NEW, CHANGE, REBOOT, BLOCKED, UNKNOWN, NOT_CONCERNED)
"""What a plan shows of a stage on a host, in the order of a legend."""

ACTION = {
    Action.REPAIR: CHANGE,
    Action.SKIP: NOTHING,
    Action.NOT_CONCERNED: NOT_CONCERNED,
    Action.BLOCKED: BLOCKED,
    Action.UNKNOWN: UNKNOWN,
}


def planned(cell: HostStage | None) -> Sign:
    """Return the sign of a plan's cell; a host without a cell is not concerned."""
    if cell is None:
        return NOT_CONCERNED
    if cell.action.changes and cell.reboot:
        return REBOOT
    if cell.action is Action.RUN:
        return CHANGE if cell.known else NEW
    return ACTION[cell.action]
