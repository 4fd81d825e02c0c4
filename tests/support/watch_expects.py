"""Watch expects, as several test modules use it."""

from typing import Any

EXPECTS: dict[str, Any] = {
    "gpus": 2,
    "pcie_width": 16,
    "nvlinks": {"A100": 12},
    "fabric_manager": True,
    "ports": 2,
    "link_layer": "InfiniBand",
    "rate_gbps": 200.0,
    "xids": "79 95",
    "xid_hours": 24.0,
    "mounts": ["/shared"],
    "scratch": "/scratch",
    "disk_percent": 5.0,
    "devices": ["/dev/null"],
}
