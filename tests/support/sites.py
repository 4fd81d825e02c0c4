"""A site for tests: hosts by their names, and what a test says of it."""

from typing import Any

from appliance.models.site import Site

ROLES = {"gpu": "gpu", "nas": "storage"}
"""By how a name begins; all others are control hosts."""


def site_of(*hosts: str | dict[str, Any], **said: Any) -> Site:
    """Hosts are names, or all that is said of one; their addresses count from 10.0.0.10 on, in their order."""
    return Site.model_validate(
        {
            "version": 1,
            "name": "acme",
            "networks": {"management": {"cidr": "10.0.0.0/24"}},
            "hosts": [_host(host, number) for number, host in enumerate(hosts, 10)],
            **said,
        }
    )


def _host(given: str | dict[str, Any], number: int) -> dict[str, Any]:
    said = {"name": given} if isinstance(given, str) else given
    role = ROLES.get(said["name"][:3], "control")
    return {"roles": [role], "address": f"10.0.0.{number}", **said}
