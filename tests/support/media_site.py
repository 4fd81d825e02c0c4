"""Media site, as several test modules use it."""

from appliance.models.site import Site

KEY = "ssh-ed25519 AAAA owner"


def site(**host: object) -> Site:
    one = {"name": "gpu-1", "roles": ["gpu"], "address": "10.0.0.11", **host}
    management = {"cidr": "10.0.0.0/24", "gateway": "10.0.0.1", "dns": ["10.0.0.2"], "mtu": 9000}
    provision = {"image": "image", "disk": {"min_gb": 900}}
    return Site.model_validate(
        {
            "version": 1,
            "name": "hall",
            "networks": {"management": management},
            "provision": provision,
            "hosts": [one],
        }
    )
