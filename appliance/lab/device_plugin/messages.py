"""The messages of kubelet's device plugin API, v1beta1, as far as they are used here.

Numbers and names are those of k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto (Kubernetes 1.20 to 1.36).
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "v1beta1"
TEXT = "string"
MANY = "*"

FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "Empty": {},
    "DevicePluginOptions": {},
    "RegisterRequest": {"version": (1, TEXT), "endpoint": (2, TEXT), "resource_name": (3, TEXT)},
    "Device": {"ID": (1, TEXT), "health": (2, TEXT)},
    "ListAndWatchResponse": {"devices": (1, "Device*")},
    "ContainerAllocateRequest": {"devicesIDs": (1, "string*")},
    "AllocateRequest": {"container_requests": (1, "ContainerAllocateRequest*")},
    # A map is a repeated pair on the wire.
    "Variable": {"key": (1, TEXT), "value": (2, TEXT)},
    "DeviceSpec": {
        "container_path": (1, TEXT),
        "host_path": (2, TEXT),
        "permissions": (3, TEXT),
    },
    "ContainerAllocateResponse": {"envs": (1, "Variable*"), "devices": (3, "DeviceSpec*")},
    "AllocateResponse": {"container_responses": (1, "ContainerAllocateResponse*")},
}


def made(package: str, messages: dict[str, dict[str, tuple[int, str]]]) -> dict[str, Any]:
    """The class of each message by its name, from the number and kind of its fields."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3"
    )
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            added = message.field.add(name=field, number=number)
            added.label = added.LABEL_REPEATED if kind.endswith(MANY) else added.LABEL_OPTIONAL
            added.type = added.TYPE_STRING
            if kind.rstrip(MANY) != TEXT:
                added.type = added.TYPE_MESSAGE
                added.type_name = f".{package}.{kind.rstrip(MANY)}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {
        name: factory.GetPrototype(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


MESSAGES = made(PACKAGE, FIELDS)
