"""The device assignments that kubelet reports through its interface for exporters (PodResources, v1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc

from appliance.lab.device_plugin.messages import TEXT, made

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
OURS = "nvidia.com/"
PATIENCE_S = 5.0
# k8s.io/kubelet/pkg/apis/podresources/v1/api.proto (Kubernetes 1.20 to 1.36), as far as it is used here.
FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "ListPodResourcesRequest": {},
    "ListPodResourcesResponse": {"pod_resources": (1, "PodResources*")},
    "PodResources": {
        "name": (1, TEXT),
        "namespace": (2, TEXT),
        "containers": (3, "ContainerResources*"),
    },
    "ContainerResources": {"name": (1, TEXT), "devices": (2, "ContainerDevices*")},
    "ContainerDevices": {"resource_name": (1, TEXT), "device_ids": (2, "string*")},
}
MESSAGES = made("v1", FIELDS)


def held(socket: Path = SOCKET) -> list[dict[str, Any]]:
    """Containers with our devices: namespace, pod, container, and the devices. Empty if no kubelet answers."""
    # Servers in Go take no socket's path as the name of a host.
    options = (("grpc.default_authority", "localhost"),)
    with grpc.insecure_channel(f"unix://{socket}", options) as channel:
        call = channel.unary_unary(
            "/v1.PodResourcesLister/List",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=MESSAGES["ListPodResourcesResponse"].FromString,
        )
        try:
            answer = call(MESSAGES["ListPodResourcesRequest"](), timeout=PATIENCE_S)
        except grpc.RpcError:
            return []
    return [
        {
            "namespace": pod.namespace,
            "pod": pod.name,
            "container": container.name,
            "devices": devices,
        }
        for pod in answer.pod_resources
        for container in pod.containers
        if (devices := _devices(container))
    ]


def _devices(container: Any) -> list[str]:
    return [
        name
        for given in container.devices
        if given.resource_name.startswith(OURS)
        for name in given.device_ids
    ]
