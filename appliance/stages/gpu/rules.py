"""Rules for the source of the NVIDIA driver."""

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
    if chosen not in only:
        return
    of, other = only[chosen]
    if refused := next((model for own in case.profiles if (model := of(own))), ""):
        yield case.problem(
            ("repositories", "gpu", "kernel_modules"),
            f"{refused} supports only the {other} kernel modules"
            " (source: NVIDIA Driver Installation Guide 615, 2026-09-09)",
            f"remove kernel_modules, or write {other}",
        )


def known_to_the_driver(case: Case) -> Iterator[Finding]:
    """Newer branches do not support Volta."""
    own = case.site.software.get("driver_branch")
    for profile in case.profiles:
        model = only_proprietary(profile)
        branch = branch_of(own or profile.software.driver_branch) if model else 0
        if branch <= VOLTA_UNTIL:
            continue
        yield case.problem(
            ("software", "driver_branch") if own else ("profile",),
            f"driver branch {branch} does not support {model}"
            f" (source: NVIDIA Data Center Drivers, {VOLTA_UNTIL} is the last branch with Volta)",
            f'set software.driver_branch: "{VOLTA_UNTIL}"',
        )


RULES: tuple[Rule, ...] = (
    repository,
    kernel_modules,
    known_to_the_driver,
)
