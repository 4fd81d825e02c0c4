"""Opens a site for a verb: files read and judged, secrets resolved, the site held, connections ready."""

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from appliance.adapters import strays
from appliance.adapters.ssh import SshRemote
from appliance.benchmarks import BENCHMARKS
from appliance.checks import CHECKS
from appliance.config import data
from appliance.config.load import LoadedSite, load_site
from appliance.config.secrets import Redactor, resolve
from appliance.engine.session import Session, endpoints
from appliance.errors import ApplianceError, ConfigError
from appliance.journal import Journal, claim, hold
from appliance.lab import rack
from appliance.models.events import Message, Observer

RACK_RUNS = Path("/var/lib/appliance/runs")
"""Runs of the embedded rack: beside it, not inside it, so that they outlive it."""


@dataclass(frozen=True)
class Target:
    """Which site, with which profile. No inventory means the embedded virtual rack."""

    inventory: Path | None = None
    profile: str | None = None

    @property
    def embedded(self) -> bool:
        """Whether this is the virtual rack."""
        return self.inventory is None


def check_ids() -> frozenset[str]:
    """Every id a limit may be set for."""
    return frozenset(c.id for c in CHECKS) | {i for b in BENCHMARKS for i in b.checks}


def locate(target: Target, *, raise_rack: bool, observer: Observer) -> LoadedSite:
    """The site's files, read and judged; raises the embedded rack first where that is wanted."""
    if target.inventory is not None:
        return load_site(target.inventory, target.profile, check_ids=check_ids())
    found = rack.load(rack.EMBEDDED)
    if raise_rack:
        spec = rack.embedded(target.profile)
        found = rack.up(spec, lambda text: observer.handle(Message(text=text)))
    if found is None:
        raise ApplianceError(
            "no inventory given, and the virtual rack is not up",
            "name a site with --inventory DIR, or raise the rack: appliance lab up",
        )
    return load_site(found.site_dir, target.profile, check_ids=check_ids())


def runs_of(target: Target) -> Path:
    """Where the runs of a site are kept, found without judging the site: its report must open even when it is ill."""
    if target.inventory is None:
        return RACK_RUNS
    if not target.inventory.exists():
        raise ConfigError(f"{target.inventory} does not exist", "name the site with --inventory")
    return (target.inventory if target.inventory.is_dir() else target.inventory.parent) / "runs"


@contextmanager
def open_session(
    target: Target,
    verb: str,
    observer: Observer,
    *,
    changes: bool = False,
    only_looks: bool = False,
) -> Iterator[Session]:
    """A session for one verb. ``changes``: the verb changes hosts, so it holds the site alone.

    ``only_looks``: an ordinary user will do, who sees less.
    """
    loaded = locate(target, raise_rack=changes, observer=observer)
    loaded.require_ready(only_looks=only_looks)
    secrets = resolve(loaded.site, loaded.folder)
    runs = runs_of(target)
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(runs))
        run = stack.enter_context(claim(journal))
        if changes:
            left = stack.enter_context(hold(runs, run, verb))
            if left:
                _clear_up(runs, left, observer)
        redact = Redactor(secrets.values())
        sys.excepthook = _redacted(redact)
        cancelled = threading.Event()
        known = endpoints(loaded.site, loaded.folder)
        remote = stack.enter_context(SshRemote(known, cancelled=cancelled.is_set))
        yield Session(
            run=run,
            verb=verb,
            site=loaded.site,
            profile=loaded.profile,
            folder=loaded.folder,
            data=data.root(),
            runs=runs,
            secrets=secrets,
            remote=remote,
            journal=journal,
            observer=observer,
            redact=redact,
            cancelled=cancelled,
            lock=loaded.lock,
        )


def _redacted(redact: Redactor) -> Callable[..., None]:
    """Prints a defect's traceback as Python does, without the site's secrets; it stays until the program ends."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))

    return show


def _clear_up(runs: Path, left: str, observer: Observer) -> None:
    ended = strays.end(strays.mark(runs / left))
    text = f"run {left} was cut off; what is finished on the hosts is not repeated"
    if ended:
        text += f" ({ended} of its processes were still at work here and have been ended)"
    observer.handle(Message(text=text, level="warning"))
