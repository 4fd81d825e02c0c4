"""The hosts of a site as Ansible gets them: their groups, and how to connect to each."""

from collections.abc import Container

from appliance.models.site import Access, Host, Role, Site

PYTHON = "/usr/bin/python3"


def groups(site: Site, hosts: Container[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of ``hosts`` in each role's group, in the site's order; groups may be empty."""
    return {
        role.value: tuple(h.name for h in site.with_role(role) if h.name in hosts) for role in Role
    }


def connection(access: Access, host: Host) -> dict[str, object]:
    """Return the variables with which Ansible connects to a host."""
    return {
        "ansible_host": str(host.address),
        "ansible_port": access.port,
        "ansible_user": access.user,
        "ansible_become": access.become,
        "ansible_python_interpreter": PYTHON,
    }
