"""The program: reads the GPUs every few seconds and reports them to kubelet; with ``pods`` it prints once which pod has which GPU."""

from __future__ import annotations

import json
import sys
import time

from appliance.lab.device_plugin import pods
from appliance.lab.device_plugin.gpus import read
from appliance.lab.device_plugin.inventory import Inventory
from appliance.lab.device_plugin.service import Service

BEAT_S = 2.0


def main() -> None:
    """Without an argument it never returns; without a driver or a kubelet it waits for them."""
    if sys.argv[1:] == ["pods"]:
        print(json.dumps(pods.held()))  # noqa: T201 - its answer
        return
    inventory = Inventory()
    services: dict[str, Service] = {}
    while True:
        inventory.see(read())
        for resource in inventory.resources - services.keys():
            services[resource] = Service(resource, inventory)
        for service in services.values():
            if said := service.keep():
                print(said, flush=True)  # noqa: T201 - the journal
        time.sleep(BEAT_S)
