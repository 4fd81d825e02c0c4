"""An emulated UpdateService on top of the emulated BMC, written from DMTF's schemas. No real BMC behaves exactly so."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.redfish_server import Bmc, Handler, tree

ROOT = "/redfish/v1/UpdateService"
ACTION = f"{ROOT}/Actions/UpdateService.SimpleUpdate"
INVENTORY = f"{ROOT}/FirmwareInventory"
TASKS = "/redfish/v1/TaskService/Tasks"
OLD = {"BMC": "24.01", "BIOS": "1.10", "NIC": "28.30.1000", "GPU baseboard": "1.2"}
NEW = {"BMC": "24.09", "BIOS": "1.21", "NIC": "28.39.1002", "GPU baseboard": "1.5"}


class Updates:
    """The firmware of one machine. ``fails``, ``loses``, ``stages``: components whose task fails, is forgotten before
    its end, or leaves a version that is used from the next start on; ``polls``: looks until a task ends.
    """

    def __init__(self, pem: Path) -> None:
        documents = tree("nvidia-dgx-h100")
        self.bmc = Bmc(documents, pem)
        self.ordered: list[tuple[str, str]] = []
        self.fails: set[str] = set()
        self.loses: set[str] = set()
        self.forgets: set[str] = set()
        self.stages: set[str] = set()
        self.polls = 2
        self.waiting: dict[str, str] = {}
        self.running: dict[str, list[Any]] = {}
        self.on_poll: Callable[[], None] = lambda: None
        documents["/redfish/v1"] = documents.get("/redfish/v1", documents.get("/redfish/v1/"))
        documents["/redfish/v1"]["UpdateService"] = {"@odata.id": ROOT}
        action = {"target": ACTION}
        documents[ROOT] = {
            "@odata.id": ROOT,
            "FirmwareInventory": {"@odata.id": INVENTORY},
            "Actions": {"#UpdateService.SimpleUpdate": action},
        }
        paths = {name: f"{INVENTORY}/{name.replace(' ', '_')}" for name in OLD}
        documents[INVENTORY] = {"Members": [{"@odata.id": path} for path in paths.values()]}
        self.items: dict[str, dict[str, Any]] = {}
        for name, path in paths.items():
            self.items[name] = documents[path] = {
                "@odata.id": path,
                "Id": name,
                "Name": name,
                "Version": OLD[name],
            }
        self.bmc.on_post = self._order
        self.bmc.before[ACTION] = self._accept

    @property
    def versions(self) -> dict[str, str]:
        return {name: item["Version"] for name, item in self.items.items()}

    def start_again(self) -> None:
        """The machine starts: staged images are used."""
        for name in self.waiting:
            self.items[name]["Version"] = self.waiting[name]
        self.waiting.clear()

    def _order(self, path: str, body: object) -> None:
        raise AssertionError(f"{path} was asked for {body}")

    def _accept(self, handler: Handler) -> None:
        # The handler has read the body already; the image names component and version.
        body: Any = self.bmc.bodies[-1]
        target = body["Targets"][0]
        name = next(n for n, item in self.items.items() if item["@odata.id"] == target)
        self.ordered.append((name, body["ImageURI"]))
        task = f"{TASKS}/{len(self.ordered)}"
        self.running[task] = [name, self.polls]
        self.bmc.before[task] = self._poll
        handler.say(202, {"@odata.id": task, "TaskState": "New"}, {"Location": task})

    def _poll(self, handler: Handler) -> None:
        self.on_poll()
        task = self.running[handler.path]
        name, left = task
        document = {"@odata.id": handler.path, "TaskState": "Running", "Messages": []}
        if left > 0:
            task[1] -= 1
            return handler.say(202, document)
        if name in self.loses:
            return handler.say(404, {"error": {"code": "Base.1.8.ResourceMissingAtURI"}})
        if name in self.fails:
            said = [{"Message": "the image is not\nsigned"}]
            return handler.say(200, document | {"TaskState": "Exception", "Messages": said})
        if name in self.stages:
            self.waiting[name] = NEW[name]
        else:
            self.items[name]["Version"] = NEW[name]
        if name in self.forgets:
            return handler.say(404, {"error": {"code": "Base.1.8.ResourceMissingAtURI"}})
        return handler.say(200, document | {"TaskState": "Completed"})
