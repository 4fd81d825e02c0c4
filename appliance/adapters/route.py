"""Which of this machine's addresses the kernel takes towards another."""

import socket
from ipaddress import IPv4Address

from appliance.errors import ConfigError


def source_towards(address: str) -> IPv4Address:
    """The source address of packets to ``address``; none is sent. Raises ConfigError where no route leads there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((address, 9))
        except OSError as error:
            raise ConfigError(
                f"no route leads to {address} ({error.strerror})",
                "look at this machine's routes, or name provision.address in site.yml",
            ) from None
        return IPv4Address(asked.getsockname()[0])
