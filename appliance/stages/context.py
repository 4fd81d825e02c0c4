"""What a role-variable function may look at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from appliance.config.secrets import Secrets
from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.site import Host, Site

Variables = dict[str, object]
Made = TypeVar("Made")


class Shared:
    """What the hosts of a site have in common, made once; nobody changes what is in it."""

    def __init__(self) -> None:
        self._made: dict[object, object] = {}
        self._known: set[int] = set()

    def once(self, key: object, make: Callable[[], Made]) -> Made:
        """What stands under ``key``; made where nothing does."""
        if key not in self._made:
            self._made[key] = value = make()
            self._known.add(id(value))
        return cast(Made, self._made[key])

    def holds(self, value: object) -> bool:
        """Whether it is this very object that all hosts have."""
        return id(value) in self._known


@dataclass(frozen=True)
class RoleContext:
    """``profile``: that of the host's class. ``facts``: what hosts may say to each other (appliance/engine/look/shared_facts.py); a host that is down keeps its last answer.

    ``shared`` belongs to all contexts that differ in nothing but their host. ``said``: complete answers, each for its own
    host alone. ``left_out``: hosts that no file of another host names.
    """

    profile: Profile
    site: Site
    host: Host
    secrets: Secrets
    facts: Mapping[str, HostFacts]
    shared: Shared = field(default_factory=Shared, compare=False, repr=False)
    said: Mapping[str, HostFacts] | None = None
    left_out: frozenset[str] = frozenset()

    def profile_of(self, host: str) -> Profile:
        """The profile of a host's class."""
        return self.site.profile_of(host, self.profile)

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """Those of the site's GPU hosts, each once."""
        return self.site.profiles(self.profile)

    @property
    def own(self) -> HostFacts | None:
        """What this host said of itself; for its own files only."""
        return (self.facts if self.said is None else self.said).get(self.host.name)

    def once(self, make: "Callable[[RoleContext], Made]") -> Made:
        """What ``make`` makes of all but the host and its class; it never sees a host's complete answer."""
        return self.shared.once(make, lambda: make(replace(self, said=None)))

    def once_of_class(self, make: "Callable[[RoleContext], Made]") -> Made:
        """The same, made once for each class."""
        key = make, self.profile.name
        return self.shared.once(key, lambda: make(replace(self, said=None)))
