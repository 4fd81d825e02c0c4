"""The local address that the kernel chooses for a destination."""

import socket
from ipaddress import IPv4Address

from appliance.errors import ConfigError


def source_towards(address: str) -> IPv4Address:
    """The source address of packets to ``address``; sends none. Raises ConfigError without a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((address, 9))
        except OSError as error:
            raise ConfigError(
                f"there is no route to {address} ({error.strerror})",
                "check this machine's routes, or set provision.address in site.yml",
            ) from None
        return IPv4Address(asked.getsockname()[0])
