"""Checks privileged software for known vulnerabilities, by data with a date of review."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from appliance.checks.check import View, not_assessed, passed, warned
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement, place
from appliance.models.site import Host, Role
from appliance.stages.base import ids
from appliance.stages.base.advisories import (
    DRIVER,
    KERNEL,
    PACKAGES,
    advisories,
    age,
    is_fixed,
    newest,
)
from appliance.stages.base.site import Advisory

DAYS = 90
"""Own choice: most vendors publish bulletins at least every quarter."""
NEWER = (
    "upgrade this program, or add a row from the vendor's bulletins to base.advisories of the site"
)


@dataclass(frozen=True)
class Part:
    """A component that a host runs, and its version."""

    of: str
    version: str


@dataclass(frozen=True)
class Known:
    """All rows, with a cache by part, because many hosts share few versions."""

    rows: tuple[Advisory, ...]
    said: dict[tuple[Part, str], tuple[Advisory | None, bool | None]]

    def of(self, part: Part, system: str) -> tuple[Advisory | None, bool | None]:
        """Return the row of a part, and whether the part has its fixes."""
        key = (part, system)
        if key not in self.said:
            row = newest(self.rows, part.of, system)
            self.said[key] = row, is_fixed(row, part.version) if row else None
        return self.said[key]


def _known(view: View) -> Known:
    return Known((*advisories(), *view.site.base.advisories), {})


def judge_advisories(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Compare each part with its newest row; a part without a row is unknown."""
    most, source = view.number(ids.ADVISORIES) or (DAYS, "own choice")
    today, simulated = facts.taken[:10], "gpu" in facts.simulated
    good: list[str] = []
    if unread := [area for area in ("os", "packages") if area in facts.errors]:
        yield not_assessed(host.name, facts.gap(unread[0]))
    if Role.GPU in host.roles and not (facts.gpus and facts.gpus.driver):
        silent = facts.gap("gpus", "no driver answers")
        yield not_assessed(place(host.name, DRIVER), silent, required=False)
    for part in _parts(facts):
        row, is_good = view.once(_known).of(part, facts.os.release)
        bad = _advisory_text(host, part, row, is_good, facts)
        if bad is not None:
            yield bad
        elif row and ((days := age(row, today)) is None or not 0 <= days <= most):
            since = "that host's clock is unknown" if days is None else f"{days} days old"
            why = f"{part.of} {part.version}: what is known of it is {since}, at most {most:g} count ({source})"
            yield not_assessed(place(host.name, part.of), why, fix=NEWER, required=False)
        else:
            good.append(f"{part.of} {part.version}")
    if good and not unread:
        told = {"unit": "parts", "evidence": ", ".join(good), "simulated": simulated}
        yield passed(host.name, len(good), **told)


def _parts(facts: HostFacts) -> Iterator[Part]:
    """Return the parts of a host. The kernel of a container is judged on its machine."""
    if facts.gpus and facts.gpus.driver:
        yield Part(DRIVER, facts.gpus.driver)
    yield from (Part(name, facts.packages[name]) for name in PACKAGES if name in facts.packages)
    if not facts.os.container and "os" not in facts.errors:
        yield Part(KERNEL, facts.os.kernel)


def _advisory_text(
    host: Host, part: Part, row: Advisory | None, is_good: bool | None, facts: HostFacts
) -> Judgement | None:
    """Return results that do not depend on the row's age: a vulnerable version stays vulnerable."""
    at = place(host.name, part.of)
    if row is None or is_good is None:
        what = f"{part.of} {part.version} of {facts.os.release}"
        why = f"no row covers {what}" if row is None else f"{what} is not of {row.source}"
        return not_assessed(at, why, fix=NEWER, required=False)
    if is_good:
        return None
    first = " or ".join(row.fixed)
    return warned(
        at,
        f"{part.of} {part.version} has known vulnerabilities, fixed in {first}",
        _fix(part, row),
        value=part.version,
        limit=first,
        limit_source=f"{row.source}, reviewed {row.looked}",
        simulated=part.of == DRIVER and "gpu" in facts.simulated,
    )


def _fix(part: Part, row: Advisory) -> str:
    if part.of == KERNEL:
        return "install the distribution's newest kernel, drain the host and reboot it"
    if part.of == DRIVER:
        branch = part.version.split(".")[0]
        wanted = next((one for one in row.fixed if one.split(".")[0] == branch), row.fixed[-1])
        return (
            f'software.driver_branch: "{wanted}" in site.yml or a newer one, then appliance deploy'
        )
    return f"drain the host, then apt-get install --only-upgrade {part.of} there (dnf upgrade {part.of})"
