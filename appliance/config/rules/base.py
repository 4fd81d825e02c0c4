"""What a rule over a site looks at."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from appliance.config.finding import Finding, KeyPath, dotted
from appliance.config.schema import Checked
from appliance.models.profile import Profile
from appliance.models.site import Site

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Case:
    """A site (as much of it as is sound), and the profile it names if that is sound."""

    checked: Checked[Site]
    site: Site
    profile: Profile | None

    @property
    def folder(self) -> Path:
        """Where paths of the site start."""
        return self.checked.document.file.parent

    def problem(self, path: KeyPath, message: str, remedy: str) -> Finding:
        """Something wrong at ``path`` of the site."""
        return self.checked.finding(path, message, remedy)

    def also(self, path: KeyPath) -> str:
        """``hosts[1].address (line 9)``, for "the same as"."""
        original = self.checked.original(path)
        return f"{dotted(original)} (line {self.checked.document.line(original)})"

    def line(self, path: KeyPath) -> int:
        """The line of ``path``."""
        return self.checked.document.line(self.checked.original(path))


Rule = Callable[[Case], Iterable[Finding]]


def repeated(items: Iterable[tuple[KeyPath, T]]) -> Iterator[tuple[KeyPath, T, KeyPath]]:
    """Every later one of equal values: its path, the value, and the path of the first."""
    first: dict[T, KeyPath] = {}
    for path, value in items:
        if value in first:
            yield path, value, first[value]
        else:
            first[value] = path


def nearest(word: str, known: Collection[str], title: str, cutoff: float = 0.6) -> str:
    """``did you mean "x"?``, or the list."""
    return near(word, known, f"{title}: {', '.join(known) or 'none'}", cutoff)


def near(word: str, known: Collection[str], otherwise: str, cutoff: float = 0.6) -> str:
    """``did you mean "x"?``, or what to do where nothing is like it."""
    close = get_close_matches(word, known, n=1, cutoff=cutoff)
    return f'did you mean "{close[0]}"?' if close else otherwise


def named_twice(case: Case, what: str, names: Iterable[tuple[KeyPath, str]]) -> Iterator[Finding]:
    """One finding for each name that stood before."""
    for path, name, first in repeated(names):
        message = f'{what} "{name}" stands twice (also line {case.line(first)})'
        yield case.problem(path, message, "make them one")
