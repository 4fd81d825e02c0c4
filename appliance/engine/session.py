"""The context of every verb: the site, the access to its hosts, the journal, and the listeners."""

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from appliance.adapters.remote import Endpoint, Reachable
from appliance.config.secrets import Redactor, Secret
from appliance.engine.notices import Notices
from appliance.journal import Journal
from appliance.models.events import Event, Observer
from appliance.models.facts import HostFacts
from appliance.models.images import ImageLock
from appliance.models.profile import Profile
from appliance.models.shared_facts import SharedFacts
from appliance.models.site import Host, Site
from appliance.report.advice import Address
from appliance.stages.context import RoleContext, Shared


@dataclass(frozen=True)
class Session:
    """One verb that runs on one site. ``data`` holds playbooks and roles; ``runs`` journal and reports.

    ``accepting``: hosts whose changed hardware the operator accepts. ``address``: site and profile as named on the
    command line, which stored remedies repeat. ``sources``: the files of the site and of its classes, the site's first.
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
    sources: tuple[Path, ...] = ()
    notices: Notices = field(default_factory=Notices)

    def tell(self, event: Event) -> None:
        """Pass an event to the listeners, without secrets."""
        self.observer.handle(self.redact.texts(event))

    def context(
        self, host: Host, said: Mapping[str, HostFacts], shared: Shared, known: SharedFacts
    ) -> RoleContext:
        """Return what role variables of ``host`` are made from; all hosts with these facts share ``shared`` and ``known``."""
        return RoleContext(
            self.profile_of(host.name),
            self.site,
            host,
            self.secrets,
            known.facts,
            shared,
            said=said,
            left_out=known.left_out,
        )

    def profile_of(self, host: str) -> Profile:
        """Return the profile of a host's class."""
        return self.site.profile_of(host, self.profile)

    @property
    def classes(self) -> str:
        """Return the hardware classes of the site's GPU hosts, for display."""
        return ", ".join(profile.name for profile in self.site.profiles(self.profile))

    @property
    def salt(self) -> bytes:
        """Return the key of variable digests, as hard to guess as the site's secrets together.

        BMC passwords and receivers' addresses are excluded: a new one changes nothing in the other stages.
        """
        kept = sorted((name, value) for name, value in self.secrets.items() if "." not in name)
        joined = "\0".join(f"{name}={value!s}" for name, value in kept)
        return hashlib.blake2b(joined.encode(), digest_size=32).digest()

    @property
    def folder_of_run(self) -> Path:
        """Return the folder of this run's report and evidence."""
        return self.runs / self.run


def endpoints(site: Site, folder: Path) -> tuple[Endpoint, ...]:
    """Return how to log in to each host of the site."""
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
