"""The parts of a page, which all six share: lines at the top, rows to choose from, and the detail of each row."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.text import Text

from appliance.console.loaded import Failure
from appliance.report.formatting import one_line
from appliance.report.symbols import Sign

INDENT = "  "


@dataclass(frozen=True)
class Row:
    """One line to choose. ``detail``: everything known about it. ``check``: the id that enter explains; ``page``: where enter goes."""

    key: str
    line: Text
    detail: tuple[Text, ...] = ()
    check: str = ""
    page: int = 0

    @property
    def words(self) -> str:
        """What a search looks at, in small letters."""
        return "\n".join(text.plain for text in (self.line, *self.detail)).casefold()


@dataclass(frozen=True)
class Page:
    """What one key shows. ``empty``: the line in place of rows. ``legend``: its signs in words. ``first``: the row that is chosen at first."""

    title: str
    head: tuple[Text, ...] = ()
    rows: tuple[Row, ...] = ()
    empty: str = ""
    legend: Text = field(default_factory=Text)
    first: str = ""


@dataclass(frozen=True)
class Look:
    """How a terminal shows signs: ``ascii_only`` without characters outside of ASCII."""

    ascii_only: bool = False

    def mark(self, sign: Sign) -> tuple[str, str]:
        """The sign and its style, for ``Text.assemble``."""
        return sign.glyph(self.ascii_only), sign.style

    def legend(self, signs: Iterable[Sign]) -> Text:
        """Each sign with its word; equal signs once."""
        once = {(sign.mark, sign.word.lower()): sign for sign in signs}
        parts = [Text.assemble(self.mark(sign), f" {sign.word.lower()}") for sign in once.values()]
        return Text("   ").join(parts)


def labelled(label: str, text: str, style: str = "") -> Text:
    """``fix: appliance deploy``."""
    return Text.assemble((f"{label}: ", "bold"), (one_line(text), style))


def failure_lines(failure: Failure | None) -> list[Text]:
    """Why a load failed, as one line with its remedy; none if it did not."""
    if failure is None:
        return []
    fix = f" · fix: {one_line(failure.fix)}" if failure.fix else ""
    return [Text.assemble(("cannot be read: ", "bold red"), one_line(failure.cause) + fix)]
