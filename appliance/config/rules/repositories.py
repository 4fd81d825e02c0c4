"""A rule for package repositories: the keys that sign them."""

from collections.abc import Iterator

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case
from appliance.models.base import Model

OF_A_MIRROR = ("mirror", "key", "fingerprint")


def signed(
    case: Case,
    path: KeyPath,
    found: Model,
    maker: str,
) -> Iterator[Finding]:
    """A key of a third party needs its fingerprint; the distribution's own packages need no repository."""
    given, own = found.model_dump(), str(type(found).model_fields["source"].default)
    if given["source"] != own:
        for name in OF_A_MIRROR:
            if given[name]:
                yield case.problem(
                    (*path, name),
                    f"configures {maker} repository, but source is {given['source']}",
                    f"remove {name}, or write source: {own}",
                )
    elif given["key"] and not given["fingerprint"]:
        yield case.problem(
            (*path, "key"),
            "names a key without its fingerprint, so any key would be accepted",
            "add fingerprint: 40 hexadecimal digits, as printed by gpg --show-keys FILE",
        )
