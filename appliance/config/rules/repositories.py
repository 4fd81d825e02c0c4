"""A rule over package repositories: whose key signs them."""

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
    """A key of somebody else's is named by its fingerprint; packages that are not the maker's need no repository."""
    given, own = found.model_dump(), str(type(found).model_fields["source"].default)
    if given["source"] != own:
        for name in OF_A_MIRROR:
            if given[name]:
                yield case.problem(
                    (*path, name),
                    f"speaks of {maker} repository, and source is {given['source']}",
                    f"leave {name} out, or write source: {own}",
                )
    elif given["key"] and not given["fingerprint"]:
        yield case.problem(
            (*path, "key"),
            "names a key without its fingerprint, so any key would do",
            "add fingerprint: 40 hexadecimal digits, as gpg --show-keys FILE prints them",
        )
