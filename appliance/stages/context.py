"""Inputs of a function for role variables."""

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
    """Values that the hosts of a site share, computed once and never modified."""

    def __init__(self) -> None:
        self._made: dict[object, object] = {}
        self._known: set[int] = set()

    def once(self, key: object, make: Callable[[], Made]) -> Made:
        """Return the value of ``key``; compute it if it is missing."""
        if key not in self._made:
            self._made[key] = value = make()
            self._known.add(id(value))
        return cast(Made, self._made[key])

    def holds(self, value: object) -> bool:
        """Return whether this object is one of the shared values."""
        return id(value) in self._known


@dataclass(frozen=True)
class RoleContext:
    """``profile``: of the host's class. ``facts``: facts of all hosts that may be shared (appliance/engine/look/shared_facts.py); a host that is down keeps its last answer.

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
        """Return the profile of a host's class."""
        return self.site.profile_of(host, self.profile)

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """Return the profiles of the site's GPU hosts, each once."""
        return self.site.profiles(self.profile)

    @property
    def own(self) -> HostFacts | None:
        """Return this host's own answer, for its own files only."""
        return (self.facts if self.said is None else self.said).get(self.host.name)

    def once(self, make: "Callable[[RoleContext], Made]") -> Made:
        """Return the result of ``make``, computed once for all hosts, without any host's own answer."""
        return self.shared.once(make, lambda: make(replace(self, said=None)))

    def once_of_class(self, make: "Callable[[RoleContext], Made]") -> Made:
        """Return the same, computed once for each class."""
        key = make, self.profile.name
        return self.shared.once(key, lambda: make(replace(self, said=None)))
