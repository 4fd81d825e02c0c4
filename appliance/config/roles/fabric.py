"""From models to the variables of role ``fabric``."""

from appliance.config.roles.context import RoleContext, Variables
from appliance.models.site import Role

MODULES = {"InfiniBand": ("ib_umad", "ib_ipoib", "rdma_ucm"), "Ethernet": ("rdma_ucm",), "none": ()}
TOP_PRIORITY = 14  # 15 stays free for a manager that must win for a while (a replacement, a test)


def variables(context: RoleContext) -> Variables:
    """Diagnostics everywhere, a subnet manager on control hosts of an InfiniBand site that wants ours."""
    return {
        "fabric_link_layer": context.profile.hardware.fabric.link_layer,
        "fabric_opensm": _runs_opensm(context),
        "fabric_opensm_priority": _priority(context),
        "fabric_kernel_modules": list(_modules(context)),
    }


def _runs_opensm(context: RoleContext) -> bool:
    return (
        context.profile.hardware.fabric.link_layer == "InfiniBand"
        and context.site.fabric.subnet_manager == "opensm"
        and Role.CONTROL in context.host.roles
    )


def _priority(context: RoleContext) -> int:
    """The first control host is master, the others stand by in the site's order (0 to 15 by the IB specification)."""
    names = [host.name for host in context.site.with_role(Role.CONTROL)]
    if context.host.name not in names:
        return 0
    return max(0, TOP_PRIORITY - names.index(context.host.name))


def _modules(context: RoleContext) -> tuple[str, ...]:
    """A container shares its machine's kernel and loads nothing."""
    facts = context.facts.get(context.host.name)
    if facts and facts.os.container:
        return ()
    return MODULES[context.profile.hardware.fabric.link_layer]
