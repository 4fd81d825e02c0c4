"""Rules over where the NVIDIA driver comes from."""

from collections.abc import Iterator

from appliance.config.finding import Finding
from appliance.config.rules.base import Case, Rule
from appliance.stages.gpu.variables import only_open

OF_A_MIRROR = ("mirror", "key", "fingerprint")


def repository(case: Case) -> Iterator[Finding]:
    """A key of somebody else's is named by its fingerprint; the distribution's packages need no repository."""
    found, path = case.site.repositories.gpu, ("repositories", "gpu")
    if found.source == "distribution":
        for name in OF_A_MIRROR:
            if getattr(found, name):
                yield case.problem(
                    (*path, name),
                    "speaks of NVIDIA's repository, and source is distribution",
                    f"leave {name} out, or write source: nvidia",
                )
    elif found.key and not found.fingerprint:
        yield case.problem(
            (*path, "key"),
            "names a key without its fingerprint, so any key would do",
            "add fingerprint: 40 hexadecimal digits, as gpg --show-keys FILE prints them",
        )


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
