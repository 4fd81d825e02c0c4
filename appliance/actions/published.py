"""The table of all checks in docs/checks.md, written from the checks themselves."""

from pathlib import Path

from appliance.checks import CHECKS, HARDWARE
from appliance.checks.check import Check
from appliance.config import data
from appliance.stages import STAGES

PAGE = "docs/checks.md"
BEGIN, END = "<!-- checks: written by python -m appliance.actions.published -->", "<!-- /checks -->"
LIMITS = {
    "base.os": "software.operating_systems of the profile",
    "base.clock": "0.1 s off its source; limit of the profile (own choice)",
    "base.clock_spread": "1 s between any two hosts (own choice)",
    "base.sysctl": "the values of role base and of stages.sysctl in the profile",
    "base.units": "active, and enabled at boot",
    "base.failed_units": "0 failed units",
    "base.disk": "5 % free, 10 % warns; on ext file systems 1,024 free inodes (own choice)",
    "base.memory": "5 % available warns (own choice)",
    "base.cpu": "hardware.host.sockets and cores of the profile",
    "base.memory_size": "hardware.host.memory_gib of the profile",
    "base.numa": "hardware.host.numa_nodes of the profile",
    "fabric.ports": "hardware.fabric.ports of the profile",
    "fabric.state": "ACTIVE on LinkUp",
    "fabric.rate": "hardware.fabric.rate_gbps of the profile, or limit fabric.rate in Gb/s",
    "fabric.sm": "1 master",
    "fabric.topology": "every port of every GPU host",
    "storage.server": "active",
    "storage.export": "writable, 5 % free (own choice)",
    "storage.client": "the kernel's client; libnfs in a container",
    "storage.mount": "storage.mounts of the site",
    "storage.scratch": "mounted, 5 % free (own choice)",
    "storage.scratch_size": "hardware.host.scratch_disk_gib of the profile",
    "slurm.munge": "active",
    "slurm.daemons": "active",
    "slurm.controller": "up",
    "slurm.nodes": "idle, mixed or allocated",
    "slurm.gres": "hardware.gpu.count of the profile",
    "slurm.accounting": "slurmdbd answers and knows the cluster",
    "observe.targets": "up: every host, and Prometheus itself",
    "observe.rules": "the rules of role observe",
    "observe.exporter": "active, and enabled at boot",
    "observe.alerts": "0 firing; more warn",
}
"""What the checks of stages are measured against; those of the hardware say it themselves."""
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
        check.limit or LIMITS.get(check.id, "-"),
        why or "-",
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    publish(data.root())
