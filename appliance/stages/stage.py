"""What a stage is; the ordered tuple of all stages lives in the package itself."""

from collections.abc import Callable
from dataclasses import dataclass

from appliance.config.roles.context import RoleContext, Variables
from appliance.models.site import Role


@dataclass(frozen=True)
class Stage:
    """One step of a deployment. Its playbook is ``playbooks/<name>.yml``.

    ``roles``: hosts with one of these roles take part. ``after``: stages a host must have finished first.
    ``ansible_roles``: roles of the playbook, whose files enter the fingerprint. ``variables``: their variables for
    one host. ``checks``: ids that prove it. ``symptoms``: ids that speak of the host, judged with the stage but neither
    mended nor proved by running it. ``minutes``: first estimate for a bare host.
    """

    name: str
    title: str
    roles: frozenset[Role]
    after: tuple[str, ...]
    ansible_roles: tuple[str, ...]
    variables: Callable[[RoleContext], Variables]
    checks: tuple[str, ...]
    minutes: float
    reboots: bool = False
    symptoms: tuple[str, ...] = ()
