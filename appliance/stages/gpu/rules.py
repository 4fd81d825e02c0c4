"""Rules over where the NVIDIA driver comes from."""

from collections.abc import Iterator

from appliance.config.finding import Finding
from appliance.config.rules.base import Case, Rule
from appliance.config.rules.repositories import signed
from appliance.stages.gpu.variables import (
    VOLTA_UNTIL,
    branch_of,
    only_open,
    only_proprietary,
)


def repository(case: Case) -> Iterator[Finding]:
    """The distribution's packages need no repository."""
    yield from signed(case, ("repositories", "gpu"), case.site.repositories.gpu, "NVIDIA's")


def kernel_modules(case: Case) -> Iterator[Finding]:
    """Blackwell has no proprietary kernel modules, Volta no open ones."""
    chosen = case.site.repositories.gpu.kernel_modules
    only = {"proprietary": (only_open, "open"), "open": (only_proprietary, "proprietary")}
    if not case.profile or chosen not in only:
        return
    of, other = only[chosen]
    if refused := of(case.profile):
        yield case.problem(
            ("repositories", "gpu", "kernel_modules"),
            f"{refused} runs on the {other} kernel modules only"
            " (source: NVIDIA Driver Installation Guide 615, 2026-09-09)",
            f"leave kernel_modules out, or write {other}",
        )


def known_to_the_driver(case: Case) -> Iterator[Finding]:
    """Newer branches left Volta behind."""
    model = only_proprietary(case.profile) if case.profile else ""
    if not case.profile or not model:
        return
    own = case.site.software.get("driver_branch")
    branch = branch_of(own or case.profile.software.driver_branch)
    if branch > VOLTA_UNTIL:
        yield case.problem(
            ("software", "driver_branch") if own else ("profile",),
            f"no driver of branch {branch} knows {model}"
            f" (source: NVIDIA Data Center Drivers, {VOLTA_UNTIL} is Volta's last)",
            f'choose software.driver_branch: "{VOLTA_UNTIL}"',
        )


RULES: tuple[Rule, ...] = (
    repository,
    kernel_modules,
    known_to_the_driver,
)
