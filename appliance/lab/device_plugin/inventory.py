"""The report to kubelet: every device ever seen, and its health."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Condition
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.lab.device_plugin.gpus import Device, Reading


class Inventory:
    """Devices by resource. Those of a GPU that no longer answers stay as unhealthy; those that a GPU no longer has are removed."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.edition = 0
        self._devices: dict[str, Device] = {}
        self._ill: frozenset[str] = frozenset()
        self._resources: frozenset[str] = frozenset()

    @property
    def resources(self) -> frozenset[str]:
        """Every resource there ever was a device of."""
        return self._resources

    def see(self, reading: Reading) -> None:
        """Records the present devices, and wakes threads that wait for a change."""
        lost = {d.id: d for d in self._devices.values() if d.gpu not in reading.answered}
        devices = {d.id: d for d in reading.devices} | lost
        ill = frozenset(lost)
        if (devices, ill) == (self._devices, self._ill):
            return
        with self.changed:
            self._devices, self._ill = devices, ill
            self._resources |= {device.resource for device in devices.values()}
            self.edition += 1
            self.changed.notify_all()

    def told(self, resource: str) -> list[tuple[str, bool]]:
        """The devices of a resource by name, with whether each is well."""
        return sorted(
            (device.id, device.id not in self._ill)
            for device in self._devices.values()
            if device.resource == resource
        )

    def given(self, ids: Iterable[str]) -> list[Device]:
        """Devices a container gets. Raises KeyError for one that is not there."""
        return [self._devices[name] for name in ids]
