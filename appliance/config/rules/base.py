"""The input of a rule for sites."""

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
    """A site (its valid parts), and the profile it names if that is valid."""

    checked: Checked[Site]
    site: Site
    profile: Profile | None

    def profile_of(self, host: str) -> Profile | None:
        """The profile of a host's class."""
        return self.site.profile_of(host, self.profile) if self.profile else None

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The profiles of the site's GPU hosts, each once; none if the site's own is invalid."""
        return self.site.profiles(self.profile) if self.profile else ()

    @property
    def folder(self) -> Path:
        """The base folder of the site's paths."""
        return self.checked.document.file.parent

    def problem(self, path: KeyPath, message: str, remedy: str) -> Finding:
        """A problem at ``path`` of the site."""
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
    """Every later duplicate of a value: its path, the value, and the path of the first."""
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
    """``did you mean "x"?``, or the remedy if nothing is similar."""
    close = get_close_matches(word, known, n=1, cutoff=cutoff)
    return f'did you mean "{close[0]}"?' if close else otherwise


def named_twice(case: Case, what: str, names: Iterable[tuple[KeyPath, str]]) -> Iterator[Finding]:
    """One finding for each duplicate name."""
    for path, name, first in repeated(names):
        message = f'{what} "{name}" is given twice (also line {case.line(first)})'
        yield case.problem(path, message, "merge them")
