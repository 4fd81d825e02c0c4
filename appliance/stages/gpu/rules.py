"""Rules over where the NVIDIA driver comes from."""

from collections.abc import Iterator

from appliance.config.finding import Finding
from appliance.config.rules.base import Case, Rule
from appliance.config.rules.repositories import signed
from appliance.stages.gpu.variables import only_open


def repository(case: Case) -> Iterator[Finding]:
    """The distribution's packages need no repository."""
    yield from signed(case, ("repositories", "gpu"), case.site.repositories.gpu, "NVIDIA's")


def kernel_modules(case: Case) -> Iterator[Finding]:
    """Blackwell has no proprietary kernel modules."""
    chosen = case.site.repositories.gpu.kernel_modules
    refused = only_open(case.profile) if case.profile and chosen == "proprietary" else ""
    if refused:
        yield case.problem(
            ("repositories", "gpu", "kernel_modules"),
            f"{refused} runs on the open kernel modules only"
            " (source: NVIDIA Driver Installation Guide 615, 2026-09-09)",
            "leave kernel_modules out, or write open",
        )


RULES: tuple[Rule, ...] = (
    repository,
    kernel_modules,
)
