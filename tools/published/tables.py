"""Tables in docs/ that are written from the program itself."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.acceptance import PROMISES
from appliance.checks.check import AnyCheck, BmcCheck, measured_against
from appliance.checks.extra_results import BESIDE, of_stage
from appliance.config import compatibility, data
from appliance.config.load import load_profile
from appliance.lab.fault import Fault
from appliance.lab.faults import FAULTS
from appliance.models.profile import Profile
from appliance.models.site import Role
from appliance.stages.catalog import EVERY_CHECK, EVERY_STAGE, HARDWARE, STAGES
from appliance.stages.gpu.part import GpuPart, gpu_parts
from appliance.stages.mig.table import Geometry, MigProfile
from appliance.stages.mig.table import mig_table as cuts
from appliance.stages.stage import always
from tools.published import forms

SHOWN = "docs/reality.md"
RUNGS = ("not shown", "unit", "simulated hardware", "real software", "real hardware")
CHECK_HEAD = (
    "check",
    "title",
    "belongs to",
    "looks at",
    "limit and its source",
    "why, and what usually trips it",
)
GPU_HEAD = (
    *("GPU", "profiles", "power", "NVLinks behind NVSwitch", "geometry"),
    *("peak, TFLOPS (BF16)", "rack's `--gpu`", "rung"),
)
MIG_HEAD = ("instance", "geometry", "at most", "compute slices", "memory slices", "start slices")
LAYOUT_HEAD = ("geometry", "GPUs", "named layouts", "source")
RELEASE_HEAD = ("component", "release", "compatible with", "packages for", "source")
FAULT_HEAD = (
    *("fault", "what it does", "injected by"),
    *("failing check", "target", "message", "drains"),
)
EXAMPLE_HOST = "gpu-1"


@dataclass(frozen=True)
class Page:
    """A page with one table between its marks."""

    path: str
    mark: str
    table: Callable[[], str]

    @property
    def begin(self) -> str:
        """The line before the table."""
        return f"<!-- {self.mark}: written by make published -->"

    @property
    def end(self) -> str:
        """The line after it."""
        return f"<!-- /{self.mark} -->"

    def current(self, text: str) -> str:
        """The page's text with its table brought up to date. Raises ValueError without marks."""
        before, _, rest = text.partition(self.begin)
        _, found, after = rest.partition(self.end)
        if not found:
            raise ValueError(f"the page has no {self.begin} ... {self.end}")
        return f"{before}{self.begin}\n{self.table()}\n{self.end}{after}"


def check_table() -> str:
    """Every check as a row of a Markdown table, in the order of evaluation."""
    return _table(CHECK_HEAD, (_check_row(check) for check in EVERY_CHECK))


def stage_table() -> str:
    """Every stage with its purpose, its hosts, and its predecessors."""
    rows = (
        (
            f"`{stage.name}`",
            stage.title,
            ", ".join(role.value for role in Role if role in stage.roles),
            ", ".join(f"`{s.name}`" for s in STAGES if s.name in stage.after + stage.facts_from)
            or "-",
            "always" if stage.wanted is always else "if configured",
        )
        for stage in STAGES
    )
    return _table(("stage", "installs or configures", "on hosts of role", "after", "runs"), rows)


def beside_table() -> str:
    """Ids that do not belong to a check."""
    rows = (
        (f'<a id="{one.id}"></a>`{one.id}`', one.title, one.explain)
        for one in (*BESIDE, of_stage("NAME"))
    )
    return _table(("id", "title", "looks at; usual causes"), rows)


def fault_table() -> str:
    """Every fault of the rack, with the check that reports it."""
    return _table(FAULT_HEAD, (_fault_row(fault) for fault in FAULTS))


def gpu_table() -> str:
    """Every GPU product in the program's data, with the profiles that include it and its known properties."""
    taken = [load_profile(file) for file in sorted(data.profiles().glob("*.yml"))]
    return _table(GPU_HEAD, (_gpu_row(part, taken) for part in gpu_parts().parts))


def mig_table() -> str:
    """Every MIG instance of a GPU."""
    return _table(MIG_HEAD, (_mig_row(g, p) for g in cuts().geometries for p in g.profiles))


def layout_table() -> str:
    """One row for each geometry: its products and named layouts."""
    return _table(LAYOUT_HEAD, (_layout_row(geometry) for geometry in cuts().geometries))


def promise_table() -> str:
    """Every promise of the scheduler, and its test."""
    rows = ((f"`{p.id}`", p.title, p.explain, p.fix) for p in PROMISES)
    return _table(("promise", "title", "test", "how to diagnose a failure"), rows)


def release_table() -> str:
    """Every release line that the program accepts, with its requirements for others."""
    return _table(RELEASE_HEAD, (_release_row(row) for row in compatibility.table().rows))


def rung_table() -> str:
    """The number of claims on each rung per area of docs/reality.md, counted from its rows."""
    counts: dict[str, Counter[str]] = {}
    area = ""
    for line in (data.root() / SHOWN).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            area = line.removeprefix("## ")
        elif area and line.startswith("| ") and not line.startswith("| capability "):
            counts.setdefault(area, Counter())[rung_of(line)] += 1
    rows = (
        (f"[{name}](#{_anchor(name)})", *(str(found[rung] or "") for rung in RUNGS))
        for name, found in counts.items()
    )
    total = sum(counts.values(), Counter())
    return _table(("area", *RUNGS), (*rows, ("all", *(str(total[rung]) for rung in RUNGS))))


def rung_of(row: str) -> str:
    """The rung of a row of docs/reality.md. Raises ValueError if it has none, or an unknown one."""
    claimed = row.split("|")[2].strip()
    for rung in RUNGS:
        if re.match(rf"{rung}\b", claimed):
            return rung
    raise ValueError(f"no rung there is: {claimed!r}")


def _anchor(heading: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


PAGES = (
    Page("docs/checks.md", "checks", check_table),
    Page("docs/checks.md", "beside", beside_table),
    Page("docs/faults.md", "faults", fault_table),
    Page("docs/how-it-works.md", "stages", stage_table),
    Page("docs/support.md", "gpus", gpu_table),
    Page("docs/mig.md", "instances", mig_table),
    Page("docs/mig.md", "layouts", layout_table),
    Page("docs/scheduler.md", "promises", promise_table),
    Page("docs/support.md", "releases", release_table),
    Page("docs/json.md", "documents", forms.table),
    Page(SHOWN, "rungs", rung_table),
)


def pages(checkout: Path) -> dict[str, str]:
    """The pages by path, brought up to date."""
    found: dict[str, str] = {}
    for page in PAGES:
        text = found.get(page.path) or (checkout / page.path).read_text(encoding="utf-8")
        found[page.path] = page.current(text)
    return found


def belongs_to(check: AnyCheck) -> str:
    """The hardware, or the stage the check proves or is judged with."""
    if isinstance(check, BmcCheck):
        return "controller"
    if check in HARDWARE:
        return "hardware"
    return next(s.name for s in EVERY_STAGE if check in s.judges)


def _check_row(check: AnyCheck) -> tuple[str, ...]:
    looks, _, why = check.explain.partition(". ")
    return (
        f'<a id="{check.id}"></a>`{check.id}`',
        check.title,
        belongs_to(check),
        looks.removesuffix(".") + ".",
        measured_against(check) or "-",
        why or "-",
    )


def _gpu_row(part: GpuPart, profiles: Sequence[Profile]) -> tuple[str, ...]:
    links = f"{part.nvlinks} x {(part.nvlink_speed or 0) / 1000:.4g} GB/s" if part.nvlinks else ""
    return (
        part.name,
        ", ".join(f"`{p.name}`" for p in profiles if part.name in p.hardware.gpu.models) or "-",
        f"{part.tdp} W",
        links or "-",
        part.mig or "-",
        f"{part.bf16.peak:g}" if part.bf16 else "-",
        f"`{part.rack['key']}`" if part.rack else "-",
        part.shown,
    )


def _mig_row(geometry: Geometry, profile: MigProfile) -> tuple[str, ...]:
    return (
        f"`{profile.name}`",
        geometry.name,
        str(profile.maximum),
        f"{profile.compute} of {geometry.compute}",
        f"{profile.memory} of {geometry.memory}",
        _places(profile.starts),
    )


def _places(starts: Sequence[int]) -> str:
    first, last = starts[0], starts[-1]
    whole = len(starts) > 2 and last - first == len(starts) - 1
    return f"{first} to {last}" if whole else ", ".join(map(str, starts))


def _layout_row(geometry: Geometry) -> tuple[str, ...]:
    products = (part.name for part in gpu_parts().parts if part.mig == geometry.name)
    layouts = (
        f"`{name}` ({' + '.join(f'{n} x {profile}' for profile, n in layout.items())})"
        for name, layout in geometry.layouts.items()
    )
    return geometry.name, ", ".join(products), ", ".join(layouts), geometry.source


def _release_row(row: compatibility.Row) -> tuple[str, ...]:
    needs = (f"{other} {bound}" for other, bound in row.needs.items())
    systems = ", ".join(row.systems)
    return (
        row.component,
        row.release,
        "; ".join(needs) or "-",
        systems or "-",
        f"{row.source}, {row.date}",
    )


def _fault_row(fault: Fault) -> tuple[str, ...]:
    words = " ".join((fault.kind, *fault.example))
    return (
        f"`{fault.kind}`",
        fault.summary,
        f"`appliance lab fault {EXAMPLE_HOST} {words}`",
        f"`{fault.check}`" if fault.check else "-",
        fault.target.replace("HOST", EXAMPLE_HOST) if fault.check else "-",
        fault.says.replace("*", "…") or "-",
        "yes" if fault.drains else "no",
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [_row(head), "|---" * len(head) + "|", *(_row(row) for row in rows)]
    return "\n".join(lines)


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
