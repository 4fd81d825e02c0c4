"""The settings of a machine's installation: the one file of its boot medium, generated from the site."""

import json
from dataclasses import dataclass
from ipaddress import IPv4Interface

from appliance.models.site import Host, Site
from appliance.provision.manifest import DISK, Image

MANAGEMENT = "management"


@dataclass(frozen=True)
class ServedFrom:
    """The control machine's server, for one machine. ``certificate``: SHA-256 of its DER form, hex."""

    url: str
    certificate: str
    token: str


def settings(
    site: Site,
    host: Host,
    image: Image,
    authorized_key: str,
    server: ServedFrom | None,
    *,
    reinstall: bool = False,
) -> str:
    """The file's text (JSON). ``server`` None: the image is on the medium, and no progress is reported.

    ``authorized_key``: the public half of the control machine's login key. The text contains no secret but the token.
    """
    network = site.networks[MANAGEMENT]
    disk = host.disk or (site.provision.disk if site.provision else None)
    entry = image.file(DISK)
    return json.dumps(
        {
            "host": host.name,
            "server": vars(server) if server else None,
            "image": {
                "bytes": entry.bytes,
                "sha256": entry.sha256,
                "disk_bytes": image.manifest.disk_bytes,
                "root_uuid": image.manifest.root_uuid,
            },
            "identity": {"image": image.digest, "name": image.manifest.name},
            "disk": disk.model_dump(exclude_none=True) if disk else {},
            "reinstall": reinstall,
            "network": {
                "mac": host.mac,
                "address": str(IPv4Interface(f"{host.address}/{network.cidr.prefixlen}")),
                "gateway": str(network.gateway) if network.gateway else None,
                "dns": [str(server) for server in network.dns],
                "mtu": network.mtu,
            },
            "user": site.access.user,
            "authorized_key": authorized_key,
        }
    )
