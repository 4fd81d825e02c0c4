"""Opens a site for a verb: files read and judged, secrets resolved, the site held, connections ready."""

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from appliance.actions.bounds import check_ids
from appliance.actions.interrupt import noted
from appliance.adapters import leftovers
from appliance.config import data
from appliance.config.load import SITE_FILE, LoadedSite, load_site
from appliance.config.secrets import Redactor, resolve
from appliance.engine.retold import retell
from appliance.engine.session import Session, endpoints
from appliance.errors import ConfigError
from appliance.journal import Journal, claim, hold
from appliance.lab import spec
from appliance.models.events import Message, Observer
from appliance.ownership import require
from appliance.report.advice import Address
from appliance.text import plural

RACK_RUNS = Path("/var/lib/appliance/runs")
"""Runs of the embedded rack: beside it, not inside it, so that they outlive it."""


@dataclass(frozen=True)
class Target:
    """Which site, with which profile. No inventory means the embedded virtual rack.

    ``is_here``: the user named no inventory, and the current folder is one.
    """

    inventory: Path | None = None
    profile: str | None = None
    is_here: bool = False

    @property
    def embedded(self) -> bool:
        """Whether this is the virtual rack."""
        return self.inventory is None

    @property
    def address(self) -> Address:
        """How commands name this site."""
        return Address(self.inventory, self.profile)


def site_here() -> Path | None:
    """The current folder, where it has a ``site.yml``, be that sound or not.

    Raises ConfigError where nothing can be looked up in it: the embedded rack may not be what the user meant.
    """
    try:
        os.lstat(SITE_FILE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            f"the current folder cannot be read ({error.strerror}), so a {SITE_FILE} in it would not be seen",
            "name the site with --inventory DIR, or change to another folder",
        ) from None
    return Path()


class NoSite(ConfigError):
    """No site was named and none is here: some verbs do without one."""


def locate(target: Target, *, raise_rack: bool, observer: Observer) -> LoadedSite:
    """The site's files, read and judged; raises the embedded rack first where that is wanted."""
    if target.inventory is not None:
        return load_site(target.inventory, target.profile, check_ids=check_ids())
    found = spec.load(spec.EMBEDDED)
    if raise_rack and (found or target.profile):
        found = _raised(target, observer, is_new=found is None)
    if found is None:
        said = (
            f"no --inventory was given, this folder has no {SITE_FILE}, and no virtual rack is up"
        )
        # A deployment of a rack nobody wanted would end with "all good" in a script that missed its folder.
        first = "a virtual rack for a first look: appliance deploy --profile hpc"
        way = first if raise_rack else "or raise the rack: appliance lab up"
        raise NoSite(said, f"name a site with --inventory DIR or change to its folder; {way}")
    return load_site(found.site_dir, target.profile, check_ids=check_ids())


def _raised(target: Target, observer: Observer, *, is_new: bool) -> spec.Rack:
    # What raises racks is read where one is raised: a site of one's own never needs it.
    from appliance.lab import rack

    def tell(text: str) -> None:
        observer.handle(Message(text=text))

    if is_new:
        tell(
            f"no --inventory, and no {SITE_FILE} here: raising a virtual rack of profile {target.profile}"
        )
    return rack.up(rack.embedded(target.profile), tell)


def runs_of(target: Target) -> Path:
    """Where the runs of a site are kept, found without judging the site: its report must open even when it is ill."""
    runs = _runs_of(target)
    require(runs)
    return runs


def _runs_of(target: Target) -> Path:
    if target.inventory is None:
        return RACK_RUNS
    if not target.inventory.exists():
        raise ConfigError(f"{target.inventory} does not exist", "name the site with --inventory")
    folder = target.inventory if target.inventory.is_dir() else target.inventory.parent
    if os.path.realpath(folder) == os.path.realpath(spec.folder_of(spec.EMBEDDED) / "site"):
        # The same site, named: it has one lock and one journal, and both outlive the rack.
        return RACK_RUNS
    return folder / "runs"


@contextmanager
def open_session(
    target: Target,
    verb: str,
    observer: Observer,
    *,
    changes: bool = False,
    alone: bool = False,
    only_looks: bool = False,
    keeps: bool = False,
    by_ssh: bool = True,
    installs: bool = False,
    run: str = "",
) -> Iterator[Session]:
    """A session for one verb. ``changes``: the verb changes hosts, so it holds the site alone; ``alone``: one that must be alone without that.

    ``only_looks``: an ordinary user will do, who sees less. ``keeps``: the verb leaves a report. One that neither changes
    nor keeps anything needs no place to write to: what it would note in the journal is lost then, with a warning.
    ``by_ssh``: False for verbs that speak to management controllers alone, or to nobody. ``installs``: the verb gives hosts their system
    where the site names an image, and learns their keys by that. ``run``: an earlier run that goes on; else a new one.
    """
    # paramiko is dear to read, and most command lines end before a host is asked.
    from appliance.adapters.ssh import SshRemote

    loaded = locate(target, raise_rack=changes, observer=observer)
    learns = installs and loaded.site.provision is not None
    loaded.require_ready(only_looks=only_looks, by_ssh=by_ssh, learns_keys=learns)
    secrets = resolve(loaded.site, loaded.folder)
    runs = runs_of(target)
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(runs, needed=changes or keeps))
        stack.callback(_tell_unkept, journal, observer)
        retell(journal)
        run = _gone_on(journal, run) if run else stack.enter_context(claim(journal))
        if changes or alone:
            left = stack.enter_context(hold(runs, run, verb))
            if left:
                _clear_up(runs, left, observer)
        if changes:
            stack.enter_context(noted(journal, run))
        for dead in leftovers.clear():
            text = f"run {dead} was killed; what it kept here in memory is removed"
            observer.handle(Message(text=text, level="warning"))
        redact = Redactor(secrets.values())
        sys.excepthook = _redacted(redact)
        threading.excepthook = _of_threads
        cancelled = threading.Event()
        known = endpoints(loaded.site, loaded.folder)
        remote = stack.enter_context(SshRemote(known, cancelled=cancelled.is_set))
        yield Session(
            run=run,
            verb=verb,
            site=loaded.site,
            profile=loaded.profile,
            folder=loaded.folder,
            data=data.built_root(),
            runs=runs,
            secrets=secrets,
            remote=remote,
            journal=journal,
            observer=observer,
            redact=redact,
            cancelled=cancelled,
            lock=loaded.lock,
            address=target.address.absolute(),
        )


def _gone_on(journal: Journal, run: str) -> str:
    if not journal.knows(run):
        raise ConfigError(f"there is no run {run}", "list the runs: appliance report --list")
    require(journal.path.parent / run)
    return run


def _tell_unkept(journal: Journal, observer: Observer) -> None:
    if journal.unkept:
        known = (
            "nothing is known of what the site's journal holds, and " if journal.is_forsaken else ""
        )
        text = f"{known}this look is not kept in the site's journal: {journal.unkept}"
        observer.handle(Message(text=text, level="warning"))


def _redacted(redact: Redactor) -> Callable[..., None]:
    """Prints a defect's traceback as Python does, without the site's secrets; it stays until the program ends."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))

    return show


def _of_threads(told: threading.ExceptHookArgs) -> None:
    """As Python's own prints what ends a thread, which a SystemExit does in silence."""
    if told.exc_type is not SystemExit and told.exc_value is not None:
        sys.excepthook(told.exc_type, told.exc_value, told.exc_traceback)


def _clear_up(runs: Path, left: str, observer: Observer) -> None:
    ended = leftovers.end(leftovers.mark(runs / left))
    text = f"run {left} was cut off; what is finished on the hosts is not repeated"
    if ended:
        text += f" ({plural(ended, 'process of it was', 'processes of it were')} still at work here, and ended now)"
    observer.handle(Message(text=text, level="warning"))
