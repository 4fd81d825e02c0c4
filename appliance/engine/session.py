"""What every verb works with: the site, the way to its hosts, the journal, and who is told."""

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from appliance.adapters.remote import Endpoint, Reachable
from appliance.config.secrets import Redactor, Secret
from appliance.journal import Journal
from appliance.models.events import Event, Observer
from appliance.models.facts import HostFacts
from appliance.models.images import ImageLock
from appliance.models.profile import Profile
from appliance.models.site import Host, Site
from appliance.models.standing import Standing
from appliance.report.advice import Address
from appliance.stages.context import RoleContext, Shared


@dataclass(frozen=True)
class Session:
    """One verb at work on one site. ``data`` holds playbooks and roles; ``runs`` journal and reports.

    ``accepting``: hosts whose changed hardware the operator accepts. ``address``: site and profile as they were named, by which kept remedies name them.
    """

    run: str
    verb: str
    site: Site
    profile: Profile
    folder: Path
    data: Path
    runs: Path
    secrets: Mapping[str, Secret]
    remote: Reachable
    journal: Journal
    observer: Observer
    redact: Redactor
    cancelled: threading.Event = field(default_factory=threading.Event)
    lock: ImageLock | None = None
    address: Address = field(default_factory=Address)
    accepting: frozenset[str] = frozenset()

    def tell(self, event: Event) -> None:
        """Passes an event on; secrets never leave."""
        self.observer.handle(self.redact.texts(event))

    def context(
        self, host: Host, said: Mapping[str, HostFacts], shared: Shared, known: Standing
    ) -> RoleContext:
        """What role variables of ``host`` are made from; ``shared`` by all hosts with these facts, as is ``known``."""
        return RoleContext(
            self.profile,
            self.site,
            host,
            self.secrets,
            known.facts,
            shared,
            said=said,
            left_out=known.left_out,
        )

    @property
    def salt(self) -> bytes:
        """Keys digests of variables; as hard to guess as the secrets every site has together.

        Passwords of controllers and addresses of receivers are left out: a new one changes nothing of the other stages.
        """
        kept = sorted((name, value) for name, value in self.secrets.items() if "." not in name)
        joined = "\0".join(f"{name}={value!s}" for name, value in kept)
        return hashlib.blake2b(joined.encode(), digest_size=32).digest()

    @property
    def folder_of_run(self) -> Path:
        """Where this run's report and evidence lie."""
        return self.runs / self.run


def endpoints(site: Site, folder: Path) -> tuple[Endpoint, ...]:
    """How to log in to each host of the site."""
    access = site.access
    return tuple(
        Endpoint(
            host=host.name,
            address=str(host.address),
            port=access.port,
            user=access.user,
            private_key=folder / access.private_key if access.private_key else None,
            known_hosts=folder / access.known_hosts,
            become=access.become,
        )
        for host in site.hosts
    )
