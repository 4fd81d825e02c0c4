"""The gRPC server of one resource, from which kubelet requests devices, and its registration with kubelet."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from appliance.lab.device_plugin.messages import MESSAGES, PACKAGE

if TYPE_CHECKING:
    from appliance.lab.device_plugin.inventory import Inventory

FOLDER = Path("/var/lib/kubelet/device-plugins")
WATCHERS = 4
"""A stream takes a thread as long as it lasts, and kubelet may open a new one before the old has ended."""
REGISTER_S = 5.0
AWAKE_S = 5.0


class Service:
    """Serves a resource while kubelet is registered; kubelet empties the folder of sockets when it starts."""

    def __init__(self, resource: str, inventory: Inventory, folder: Path = FOLDER) -> None:
        self.resource = resource
        self._inventory = inventory
        self._kubelet = folder / "kubelet.sock"
        self._socket = folder / f"lab-{resource.rpartition('/')[2]}.sock"
        self._server: Any = None
        self._known_to: tuple[int, int] | None = None

    def keep(self) -> str:
        """Registers if this kubelet does not know the resource yet; returns the action, "" if none."""
        try:
            met = self._kubelet.stat()
        except FileNotFoundError:
            return ""
        kubelet = (met.st_ino, met.st_mtime_ns)
        if kubelet == self._known_to and self._socket.exists():
            return ""
        try:
            self._serve()
            self._register()
        except (grpc.RpcError, RuntimeError) as error:
            return f"{self.resource}: kubelet did not take it: {error}"
        self._known_to = kubelet
        return f"{self.resource}: registered"

    def _serve(self) -> None:
        if self._server:
            self._server.stop(None).wait()
        self._socket.unlink(missing_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(WATCHERS))
        handlers = {
            "GetDevicePluginOptions": _answers(self._options, "Empty"),
            "ListAndWatch": _answers(self._watched, "Empty", grpc.unary_stream_rpc_method_handler),
            "Allocate": _answers(self._allocated, "AllocateRequest"),
        }
        name = f"{PACKAGE}.DevicePlugin"
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(name, handlers),)
        )
        self._server.add_insecure_port(f"unix://{self._socket}")
        self._server.start()

    def _register(self) -> None:
        request = MESSAGES["RegisterRequest"](
            version=PACKAGE, endpoint=self._socket.name, resource_name=self.resource
        )
        # Servers in Go take no socket's path as the name of a host.
        options = (("grpc.default_authority", "localhost"),)
        with grpc.insecure_channel(f"unix://{self._kubelet}", options) as channel:
            call = channel.unary_unary(
                f"/{PACKAGE}.Registration/Register",
                request_serializer=_bytes,
                response_deserializer=MESSAGES["Empty"].FromString,
            )
            call(request, timeout=REGISTER_S)

    def _options(self, request: Any, context: Any) -> Any:
        del request, context
        return MESSAGES["DevicePluginOptions"]()

    def _watched(self, request: Any, context: Any) -> Iterator[Any]:
        """All devices at once, and again after each change."""
        del request
        told = -1
        while context.is_active():
            with self._inventory.changed:
                if self._inventory.edition == told:
                    self._inventory.changed.wait(AWAKE_S)
                    continue
                told = self._inventory.edition
                devices = self._inventory.told(self.resource)
            yield MESSAGES["ListAndWatchResponse"](
                devices=[
                    {"ID": name, "health": "Healthy" if well else "Unhealthy"}
                    for name, well in devices
                ]
            )

    def _allocated(self, request: Any, context: Any) -> Any:
        """The variables for NVIDIA's container toolkit, and the device nodes that a container may open."""
        answer = MESSAGES["AllocateResponse"]()
        for wanted in request.container_requests:
            try:
                devices = self._inventory.given(wanted.devicesIDs)
            except KeyError as error:
                context.abort(grpc.StatusCode.NOT_FOUND, f"no device {error}")
            nodes = dict.fromkeys(node for device in devices for node in device.nodes)
            names = ",".join(device.id for device in devices)
            answer.container_responses.add(
                envs=[{"key": "NVIDIA_VISIBLE_DEVICES", "value": names}],
                devices=[
                    {"container_path": node, "host_path": node, "permissions": "rw"}
                    for node in nodes
                    if Path(node).exists()
                ],
            )
        return answer


def _answers(function: Any, request: str, kind: Any = grpc.unary_unary_rpc_method_handler) -> Any:
    reader = MESSAGES[request].FromString
    return kind(function, request_deserializer=reader, response_serializer=_bytes)


def _bytes(message: Any) -> bytes:
    made: bytes = message.SerializeToString()
    return made
