"""Opens a site for a verb: reads and judges files, resolves secrets, locks the site, prepares connections."""

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from appliance import __version__
from appliance.actions.profiles.limit_bounds import check_ids
from appliance.actions.sites import virtual_rack
from appliance.actions.sites.interrupts import noted
from appliance.adapters import installed, leftovers
from appliance.adapters.webhook import Webhook
from appliance.config import data
from appliance.config.load import SITE_FILE, LoadedSite, load_site
from appliance.config.secrets import (
    NOTIFY_KEY,
    NOTIFY_TOKEN,
    NOTIFY_URL,
    Redactor,
    Secrets,
    resolve,
)
from appliance.engine.journal_redaction import redact_journal
from appliance.engine.notices import Notices, Posted
from appliance.engine.session import Session, endpoints
from appliance.engine.user import operator
from appliance.errors import ApplianceError, ConfigError
from appliance.journal import Journal, claim, hold
from appliance.models.events import Event, Message, Observer
from appliance.ownership import require
from appliance.report.advice import Address
from appliance.text import plural

OPENED, CLOSED = "opened", "closed"
"""Kinds of the journal's entries of who runs a verb that changes the site or holds its lock, and of its end."""
RACK_RUNS = Path("/var/lib/appliance/runs")
"""Runs of the embedded rack: outside of its folder, so that they outlive it."""


@dataclass(frozen=True)
class Target:
    """The site and its profile. No inventory means the embedded virtual rack.

    ``is_here``: the user named no inventory, and the current folder is one. ``kubernetes``: whether a rack that is raised has it.
    """

    inventory: Path | None = None
    profile: str | None = None
    is_here: bool = False
    kubernetes: bool = True

    @property
    def embedded(self) -> bool:
        """Whether this is the virtual rack."""
        return self.inventory is None

    @property
    def address(self) -> Address:
        """How commands name this site."""
        return Address(self.inventory, self.profile)


def site_here() -> Path | None:
    """The current folder if it has a ``site.yml``, valid or not.

    Raises ConfigError if the folder cannot be searched: the embedded rack may not be what the user meant.
    """
    try:
        os.lstat(SITE_FILE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            f"the current folder cannot be read ({error.strerror}); a {SITE_FILE} in it cannot be found",
            "name the site with --site DIR, or change to another folder",
        ) from None
    return Path()


class NoSite(ConfigError):
    """No site was named and the current folder has none: some verbs do not need one."""


def locate(
    target: Target, *, raise_rack: bool = False, observer: Observer | None = None
) -> LoadedSite:
    """The site's files, read and judged; starts the embedded rack first if needed."""
    if target.inventory is not None:
        return load_site(target.inventory, target.profile, check_ids=check_ids())
    found = virtual_rack.site()
    if raise_rack and (found or target.profile):
        found = _raised(target, observer, is_new=found is None)
    if found is None:
        said = f"no --site was given, and the current folder has no {SITE_FILE}"
        way = "name a site with --site DIR or change to its folder"
        if virtual_rack.is_installed():
            said = f"no --site was given, the current folder has no {SITE_FILE}, and no virtual rack is running"
            # Deploying an unwanted rack would end with "all good" in a script that runs in the wrong folder.
            first = "to try a virtual rack: appliance deploy --profile hpc"
            way += f"; {first if raise_rack else 'or start the rack: appliance lab up'}"
        raise NoSite(said, way)
    return load_site(found, target.profile, check_ids=check_ids())


def _raised(target: Target, observer: Observer | None, *, is_new: bool) -> Path:
    """Starts the embedded rack, and returns the folder of its site."""

    def tell(text: str) -> None:
        if observer is not None:
            observer.handle(Message(text=text))

    rack = virtual_rack.maker()
    wanted = rack.embedded(target.profile, kubernetes=target.kubernetes)
    if is_new:
        tell(
            f"no --site, and no {SITE_FILE} here: starting a virtual rack of profile {target.profile}, {rack.described(wanted)}"
        )
    return Path(rack.up(wanted, tell).site_dir)


def runs_of(target: Target) -> Path:
    """The folder of a site's runs, found without judging the site: reports must open even if it is invalid."""
    runs = _runs_of(target)
    require(runs)
    return runs


def _runs_of(target: Target) -> Path:
    if target.inventory is None:
        return RACK_RUNS
    if not target.inventory.exists():
        raise ConfigError(f"{target.inventory} does not exist", "name the site with --site")
    folder = target.inventory if target.inventory.is_dir() else target.inventory.parent
    if virtual_rack.is_its_site(folder):
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
    """A session for one verb. ``changes``: the verb changes hosts, so it locks the site; ``alone``: a verb that needs the lock without changing hosts.

    ``only_looks``: an unprivileged user suffices, who sees less. ``keeps``: the verb leaves a report. A verb that neither
    changes nor keeps anything needs no writable folder: its journal entries are lost then, with a warning.
    ``by_ssh``: False for verbs that use BMCs only, or contact nothing. ``installs``: the verb installs hosts if the site
    has an image, and learns their keys by that. ``run``: an earlier run to resume; else a new one.
    """
    # paramiko is slow to import, and most commands end before a host is contacted.
    from appliance.adapters.ssh import SshRemote

    loaded = locate(target, raise_rack=changes, observer=observer)
    learns = installs and loaded.site.provision is not None
    loaded.require_ready(only_looks=only_looks, by_ssh=by_ssh, learns_keys=learns)
    secrets = resolve(loaded.site, loaded.folder)
    runs = runs_of(target)
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(runs, needed=changes or keeps))
        stack.callback(_report_lost_entries, journal, observer)
        redact_journal(journal)
        run = _continued_run(journal, run) if run else stack.enter_context(claim(journal))
        if changes or alone:
            left = stack.enter_context(hold(runs, run, verb))
            if left:
                _clear_up(runs, left, observer)
        redact = Redactor(secrets.values())
        told = _Redacted(observer, redact)
        hook, name = _webhook(loaded, secrets), loaded.site.name
        notices = Posted(hook, journal, told, name, run) if hook else Notices()
        stack.callback(notices.close)
        if changes or alone:
            stack.enter_context(notices.of_run(verb))
            stack.enter_context(_recorded(journal, run, verb))
        if changes:
            stack.enter_context(noted(journal, run))
        if changes:
            for remark in installed.remarks():
                observer.handle(Message(text=remark, level="warning"))
        for dead in leftovers.clear():
            text = f"run {dead} was killed; its temporary files in memory were removed"
            observer.handle(Message(text=text, level="warning"))
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
            sources=loaded.sources,
            notices=notices,
        )


@dataclass(frozen=True)
class _Redacted:
    """The listeners, who get no secret."""

    observer: Observer
    redact: Redactor

    def handle(self, event: Event) -> None:
        self.observer.handle(self.redact.texts(event))


def _webhook(loaded: LoadedSite, secrets: Secrets) -> Webhook | None:
    given = loaded.site.notify
    if given is None:
        return None
    authority = loaded.folder / given.authority if given.authority else None
    url, token, key = (
        str(secrets.get(name, "")) for name in (NOTIFY_URL, NOTIFY_TOKEN, NOTIFY_KEY)
    )
    return Webhook(url, token, key, authority)


@contextmanager
def _recorded(journal: Journal, run: str, verb: str) -> Iterator[None]:
    """Records who runs the verb, and how it ends."""
    journal.append(run, OPENED, verb=verb, who=operator(), appliance=__version__)
    outcome = "failed"
    try:
        yield
        outcome = "done"
    except ConfigError:
        outcome = "refused"
        raise
    except KeyboardInterrupt:
        outcome = "interrupted"
        raise
    finally:
        # The reason may be that the disk is full.
        with suppress(ApplianceError):
            journal.append(run, CLOSED, outcome=outcome)


def _continued_run(journal: Journal, run: str) -> str:
    if not journal.knows(run):
        raise ConfigError(f"there is no run {run}", "list the runs: appliance report --list")
    require(journal.path.parent / run)
    return run


def _report_lost_entries(journal: Journal, observer: Observer) -> None:
    if journal.unkept:
        known = "the content of the site's journal is unknown, and " if journal.is_forsaken else ""
        text = f"{known}this run is not recorded in the site's journal: {journal.unkept}"
        observer.handle(Message(text=text, level="warning"))


def _redacted(redact: Redactor) -> Callable[..., None]:
    """Prints a defect's traceback like Python, without the site's secrets; installed until the program ends."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))

    return show


def _of_threads(told: threading.ExceptHookArgs) -> None:
    """Like Python's own handler for errors of a thread, which ignores SystemExit."""
    if told.exc_type is not SystemExit and told.exc_value is not None:
        sys.excepthook(told.exc_type, told.exc_value, told.exc_traceback)


def _clear_up(runs: Path, left: str, observer: Observer) -> None:
    ended = leftovers.end(leftovers.mark(runs / left))
    text = f"run {left} was interrupted; finished steps are not repeated"
    if ended:
        text += f" ({plural(ended, 'of its processes was', 'of its processes were')} still running here, and killed now)"
    observer.handle(Message(text=text, level="warning"))
