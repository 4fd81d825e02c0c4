"""Rules for the access to hosts."""

from collections.abc import Iterator
from dataclasses import replace

from appliance.config.finding import Finding
from appliance.config.rules.base import Case


def access(case: Case) -> Iterator[Finding]:
    """Users other than root need sudo, except for read-only verbs."""
    given = case.site.access
    if given.user != "root" and not given.become and case.checked.whole("access"):
        finding = case.problem(
            ("access", "user"),
            f"{given.user} is not root and become is false",
            "set access.become: true (needs passwordless sudo)",
        )
        yield replace(finding, level="todo")
