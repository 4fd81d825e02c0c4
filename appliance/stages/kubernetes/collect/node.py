"""Allocatable GPUs of this host, read with kubelet's identity, so no other host is necessary."""

from __future__ import annotations

import base64
import re

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.kubernetes.collect.api import Api
from appliance.stages.kubernetes.collect.pods import pods

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from appliance.probe.ask import Facts

KUBECONFIG = "/etc/kubernetes/kubelet.conf"
CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"
PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.S)
NODE = re.compile(rb"\x0c(.)system:node:|\x13(.)system:node:", re.S)
"""Common name of kubelet's certificate in DER, a UTF8String or PrintableString after its length. kubelet may read the node of this
name and its pods, and no other (Node authorizer)."""
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,52}")
VENDOR = "nvidia.com/"
PLUGINS = ("gpu-operator", "nvidia-device-plugin")
"""Namespaces of charts with a device plugin (appliance/stages/kubernetes/charts.yml)."""


def collect(ask: Ask) -> Facts:
    """``gives`` and ``plugins`` of the area ``kubernetes``; nothing before the host has joined a cluster."""
    if not (files.exists(ask.path(KUBECONFIG)) and files.exists(ask.path(CERTIFICATE))):
        return {}
    try:
        name = node_name(files.read(ask.path(CERTIFICATE)))
        api = Api(ask, KUBECONFIG)
        found: Facts = {"gives": given(api.object("/api/v1/nodes/" + name))}
        if not any(found["gives"].values()):
            found["plugins"] = [pod for space in PLUGINS for pod in _plugins(api, space, name)]
    except (Unreadable, OSError, ValueError) as error:
        ask.problem("kubernetes", error)
        return {}
    return found


def node_name(pem: str) -> str:
    """Return the node's name in the certificate. Raises Unreadable."""
    inside = PEM.search(pem)
    der = base64.b64decode(inside.group(1)) if inside else b""
    found = NODE.search(der)
    if found:
        first = found.start() + 2
        _, _, name = der[first : first + der[first - 1]].decode("ascii").rpartition(":")
        if NAME.fullmatch(name):
            return name
    raise Unreadable(CERTIFICATE + " names no node")


def given(node: dict[str, Any]) -> dict[str, int]:
    """Return GPUs and MIG devices of a node, without the vendor's prefix. Raises Unreadable.

    kubelet continues to list resources that a node no longer offers, with 0.
    """
    try:
        told = node["status"].get("allocatable") or {}
        found = {k[len(VENDOR) :]: int(v) for k, v in told.items() if k.startswith(VENDOR)}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Unreadable("the API returned no node") from None
    return {"gpu": 0, **{name: count for name, count in found.items() if count}}


def _plugins(api: Api, space: str, name: str) -> list[Facts]:
    return pods(
        api.items(f"/api/v1/namespaces/{space}/pods?fieldSelector=spec.nodeName%3D{name}", "Pod")
    )
