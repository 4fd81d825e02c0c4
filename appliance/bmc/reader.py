"""Reads resources of one BMC, and records what could not be read instead of failing."""

from collections.abc import Iterator
from contextlib import contextmanager

from appliance.adapters.redfish import Document, Redfish, ResourceFailed
from appliance.bmc.document import links, objects, section, text
from appliance.errors import ApplianceError
from appliance.models.bmc import BmcArea

MEMBERS = 512
"""Largest number of resources in a collection: 64 slots of memory, 200 sensors, 300 firmware components."""
PAGES = 32
NEXT = "Members@odata.nextLink"


class Reader:
    """``unread``: by area, the first reason why something in it is unknown.

    ``lost``: why the BMC itself stopped answering; what was read until then is kept.
    """

    def __init__(self, controller: Redfish) -> None:
        self._controller = controller
        self._seen: dict[str, Document] = {}
        self.unread: dict[str, str] = {}
        self.lost: ApplianceError | None = None

    @contextmanager
    def area(self, area: BmcArea) -> Iterator[None]:
        """A failure within the block is a gap of this area."""
        try:
            yield
        except ResourceFailed as error:
            self.note(area, error.message)

    def note(self, area: BmcArea, why: str) -> None:
        """Something in this area is unknown; the first reason is kept."""
        self.unread.setdefault(area, why)

    def get(self, path: str) -> Document:
        """A resource, read once. Raises ResourceFailed."""
        if not path:
            raise ResourceFailed("the BMC has no link to it")
        if path not in self._seen:
            if self.lost:
                raise ResourceFailed(self.lost.message)
            try:
                self._seen[path] = self._controller.get(path)
            except ResourceFailed:
                raise
            except ApplianceError as error:
                self.lost = error
                raise ResourceFailed(error.message) from None
        return self._seen[path]

    def maybe(self, area: BmcArea, path: str) -> Document:
        """A resource, or nothing and a gap."""
        with self.area(area):
            return self.get(path)
        return {}

    def members(self, area: BmcArea, path: str) -> Iterator[Document]:
        """The resources of a collection, page by page; unreadable ones are a gap of the area."""
        for item in self.entries(area, path):
            at = text(item, "@odata.id")
            # A BMC may expand members in the collection.
            whole = item if len(item) > 2 else self.maybe(area, at)
            if whole:
                yield whole

    def entries(self, area: BmcArea, path: str) -> Iterator[Document]:
        """The members of a collection: links, or whole resources."""
        visited: set[str] = set()
        count = 0
        while path and path not in visited:
            visited.add(path)
            page = self.maybe(area, path)
            if page and not isinstance(page.get("Members"), list):
                self.note(area, f"{path} lists no members")
            for item in objects(page, "Members"):
                if (count := count + 1) > MEMBERS:
                    return self.note(area, f"{path} lists more than {MEMBERS}")
                yield item
            if len(visited) >= PAGES:
                return self.note(area, f"{path} never ends")
            path = text(page, NEXT)

    def linked(self, area: BmcArea, document: Document, key: str) -> Iterator[Document]:
        """The resources in a list of links of a document."""
        for at in links(document, key)[:MEMBERS]:
            if found := self.maybe(area, at):
                yield found

    def of(self, area: BmcArea, document: Document, key: str) -> Iterator[Document]:
        """The members of the collection linked under ``key``; a missing link is a gap."""
        at = text(section(document, key), "@odata.id")
        if not at:
            self.note(area, f"{text(document, '@odata.id') or 'the system'} has no {key}")
            return
        yield from self.members(area, at)
