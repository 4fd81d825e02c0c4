"""The table of all checks in docs/checks.md, written from the checks themselves."""

from pathlib import Path

from appliance.checks import CHECKS, HARDWARE
from appliance.checks.check import Check
from appliance.config import data
from appliance.stages import STAGES

PAGE = "docs/checks.md"
BEGIN, END = "<!-- checks: written by python -m appliance.actions.published -->", "<!-- /checks -->"
HEAD = "| check | title | belongs to | looks at | limit and its source | why, and what usually trips it |"


def table() -> str:
    """Every check as a row of a Markdown table, in the order they are made."""
    return "\n".join([HEAD, "|---" * 6 + "|", *(_row(check) for check in CHECKS)])


def with_table(text: str) -> str:
    """The page with the table between its marks brought up to date. Raises ValueError without marks."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the page has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def publish(checkout: Path) -> None:
    """Bring the page up to date; run after a change of the checks."""
    page = checkout / PAGE
    page.write_text(with_table(page.read_text()))


def belongs_to(check: Check) -> str:
    """The hardware, or the stage the check proves or is judged with."""
    if check in HARDWARE:
        return "hardware"
    return next(s.name for s in STAGES if check.id in (*s.checks, *s.symptoms))


def _row(check: Check) -> str:
    looks, _, why = check.explain.partition(". ")
    cells = (
        f"`{check.id}`",
        check.title,
        belongs_to(check),
        looks.removesuffix(".") + ".",
        check.limit or "-",
        why or "-",
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    publish(data.root())
