"""Restarts by a stage: each stage declares them, and a test compares them with its roles."""

from collections.abc import Callable
from dataclasses import dataclass

from appliance.models.facts import HostFacts
from appliance.models.site import Host
from appliance.stages.context import Variables

Judge = Callable[[Host, HostFacts | None, Variables], bool]


def _everywhere(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    return True


def _never(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    return False


@dataclass(frozen=True)
class Restart:
    """A unit or program that a stage restarts or reloads.

    ``unit``: a unit of systemd, without ".service"; a static pod's name; else words. ``files``: it is restarted where the
    stage rewrites one of them, paths of all families of systems. ``variables``: variables of the role that these files are made
    of, or that restart it otherwise. ``presence``: variables of which the files say only whether they are empty. ``maybe``: variables
    that restart it or not, which only the host finds out. ``by``: tasks that restart it whatever its files: names of modules and
    commands. ``when``: whether these will, by a host's facts; where the host is not as its stage left it, they may.
    ``on``: whether the host has it at all. ``before``: it may run before the stage has been there.
    """

    unit: str
    files: tuple[str, ...] = ()
    variables: frozenset[str] = frozenset()
    presence: frozenset[str] = frozenset()
    maybe: frozenset[str] = frozenset()
    by: tuple[str, ...] = ()
    when: Judge = _never
    on: Judge = _everywhere
    before: bool = False

    @property
    def name(self) -> str:
        """Return the unit's name for systemd and the probe."""
        return self.unit if "." in self.unit else f"{self.unit}.service"
