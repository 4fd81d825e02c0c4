"""Provision: bare machines get their system from an image, by the virtual media of their management controllers."""

import re
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from appliance.actions.interrupt import interruptible
from appliance.actions.opening import Target, open_session
from appliance.adapters import signing
from appliance.adapters.process import run
from appliance.adapters.redfish import Controller, Patience, Redfish
from appliance.adapters.remote import known_hosts_name
from appliance.adapters.route import source_towards
from appliance.bmc.media import Drive, Source
from appliance.bmc.power import Order, Waiting, state, switch
from appliance.config import known_keys
from appliance.config.public_key import complaint
from appliance.engine.controllers import controllers
from appliance.engine.gather import each
from appliance.engine.named import named
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError, DeadlineExceeded
from appliance.models.events import Message, Observer
from appliance.models.provision import ProvisionOptions
from appliance.models.site import Host
from appliance.provision import build, manifest, media
from appliance.provision.building import Progress
from appliance.provision.manifest import Image
from appliance.provision.recipe import Recipe
from appliance.provision.server import BootServer, Guest, Report
from appliance.provision.settings import ServedFrom, settings
from appliance.provision.sources import RELEASES, machine_sources
from appliance.report.wording import fold

NO_IMAGE = "build one (appliance provision build) and name it: provision.image in site.yml"
PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]{1,99}")
"""Debian Policy, 5.6.1."""
AT_WORK = "it is on, and what runs there does not answer ssh with a known key"
OFF_FIRST = "if nothing does: appliance power off {hosts} --hard --force"
IDENTITY = "/etc/appliance/image.json"


class State(StrEnum):
    """How it ended for one host."""

    INSTALLED = "installed"
    RUNS_IT = "runs this image"
    FAILED = "failed"


@dataclass(frozen=True)
class Deadlines:
    """How long each step of one host may take; seconds. Servers test their memory for minutes before they start."""

    start: float = 900.0
    silence: float = 300.0
    system: float = 900.0
    pause: float = 3.0

    @property
    def whole(self) -> float:
        """All of it: nothing of a host is worth anything longer."""
        return 2 * self.start + self.system + 3600.0


@dataclass(frozen=True)
class Provisioned:
    """One host, and why it was not installed where it was not."""

    host: str
    state: State
    seconds: float = 0.0
    error: ApplianceError | None = None
    is_verified: bool = True
    """Whether its controller compared the certificate of the server that it fetched the medium from."""


@dataclass
class Heard:
    """What one machine has said; written by the server's threads."""

    state: str = ""
    said: Mapping[str, object] = field(default_factory=dict)
    at: float = field(default_factory=time.monotonic)


class Reports:
    """What machines say while they are installed, for those who wait for it."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._changed = threading.Condition()
        self._heard: dict[str, Heard] = {}

    def take(self, host: str, said: Report) -> None:
        """Another report of a host; steps are shown, not each percent."""
        state = str(said.get("state", ""))
        with self._changed:
            before = self._heard.get(host)
            self._heard[host] = Heard(state, said)
            self._changed.notify_all()
        if before is None or before.state != state:
            self._observer.handle(Message(text=f"{host}: {_step(state, said)}"))

    def last(self, host: str) -> Heard | None:
        """The newest."""
        with self._changed:
            return self._heard.get(host)

    def wait(self, seconds: float) -> None:
        """Until somebody says something, at most so long."""
        with self._changed:
            self._changed.wait(seconds)


def _step(state: str, said: Report) -> str:
    match state:
        case "started":
            return "its installer runs"
        case "disk":
            return f"takes disk {said.get('disk')}"
        case "writing":
            return "writes the image"
        case "written":
            return f"image written in {said.get('seconds')} s, and verified"
        case "refused":
            return str(said.get("message"))
    return state


@dataclass(frozen=True)
class Work:
    """All that the hosts of one run have in common."""

    session: Session
    options: ProvisionOptions
    image: Image
    key: str
    server: BootServer
    reports: Reports
    folder: Path
    reinstall: frozenset[str]
    deadlines: Deadlines
    waiting: Waiting
    patience: Patience
    pinning: threading.Lock = field(default_factory=threading.Lock)


def build_image(
    release: str,
    folder: Path,
    packages: tuple[str, ...],
    sign: Path | None,
    progress: Progress,
) -> Image:
    """Builds an image into a new folder. Raises ApplianceError."""
    build.require()
    key = signing.key_of(sign) if sign else None
    for package in packages:
        if not PACKAGE.fullmatch(package):
            raise ConfigError(f'"{package}" is no package name', "correct --package")
    recipe = Recipe(release, machine_sources(progress, RELEASES[release]), packages)
    return build.build(recipe, folder, progress, key)


def media_for(target: Target, hosts: tuple[str, ...], output: Path, reinstall: tuple[str, ...], observer: Observer) -> list[Path]:  # fmt: skip
    """An ISO per host with the image on it, for a hall where no controller fetches one. Raises ApplianceError."""
    with open_session(target, "provision", observer, keeps=True, by_ssh=False) as session:
        image, key = _image(session), _public_key(session)
        chosen = _chosen(session, hosts)
        if unknown := set(reinstall) - {host.name for host in chosen}:
            raise ConfigError(f"--reinstall names {', '.join(sorted(unknown))}, which is not among the hosts")  # fmt: skip
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{output} cannot be made ({error.strerror})") from None
        made = []
        for host in chosen:
            file = output / f"{host.name}.iso"
            told = settings(session.site, host, image, key, None, reinstall=host.name in reinstall)
            media.make(image, told, file, with_disk=True)
            made.append(file)
        return made


def install(
    target: Target,
    hosts: tuple[str, ...],
    reinstall: tuple[str, ...],
    observer: Observer,
    consent: Callable[[tuple[str, ...]], bool],
    *,
    deadlines: Deadlines | None = None,
    waiting: Waiting | None = None,
    patience: Patience | None = None,
) -> list[Provisioned] | None:
    """Installs these hosts (none: all with a controller) side by side; None where the user declined.

    A host that runs the image is left alone. One that runs another system, or whose disk carries anything, is touched
    only where ``reinstall`` names it. A host's own failure is a value.
    """
    with open_session(target, "provision", observer, changes=True, by_ssh=False) as session:
        options = _options(session)
        again = frozenset(
            named(reinstall, [h.name for h in session.site.hosts], flag="--reinstall")
        )
        known = controllers(session, sorted({*hosts, *again}) if hosts else ())
        image, key = _image(session), _public_key(session)
        running = {name: _runs(session, name) for name in known if name not in again}
        _refuse_busy(running, image, {n: c for n, c in known.items() if not running.get(n, "?")})
        done = [
            Provisioned(name, State.RUNS_IT)
            for name, runs in running.items()
            if runs == image.digest
        ]
        rest = tuple(name for name in known if name not in {d.host for d in done})
        if not rest:
            return done
        if not consent(rest):
            return None
        session.journal.append(session.run, "run_started", verb="provision install")
        address = options.address or source_towards(next(iter(known.values())).address)
        reports = Reports(observer)
        with (
            tempfile.TemporaryDirectory(prefix="appliance-media-") as folder,
            BootServer(address, options.port, image.path(manifest.DISK), reports.take) as server,
            interruptible(session),
        ):
            work = Work(
                session=session,
                options=options,
                image=image,
                key=key,
                server=server,
                reports=reports,
                folder=Path(folder),
                reinstall=again,
                deadlines=deadlines or Deadlines(),
                waiting=waiting or Waiting(),
                patience=patience or Patience(whole=600.0),
            )
            done += [found for _, found in each(rest, lambda name: _one(work, known[name]))]
        for one in done:
            said = one.error.message if one.error else ""
            session.journal.append(
                session.run, "provisioned", host=one.host, state=one.state, cause=said
            )
        failed = any(one.error for one in done)
        session.journal.append(session.run, "run_finished", exit=int(failed))
        return done


def _refuse_busy(
    running: Mapping[str, str], image: Image, silent: Mapping[str, Controller]
) -> None:
    """No machine is switched off that may be at work. ``silent``: those that do not answer ssh with a known key."""
    others = sorted(name for name, runs in running.items() if runs not in ("", image.digest))
    if others:
        raise ConfigError(
            f"{fold(others)}: another system runs there",
            f"its disk would be lost; if nobody needs it: --reinstall {fold(others)}",
        )
    if on := sorted(name for name, is_on in each(silent, lambda n: _is_on(silent[n])) if is_on):
        raise ConfigError(f"{fold(on)}: {AT_WORK}", OFF_FIRST.format(hosts=fold(on)))


def _is_on(known: Controller) -> bool:
    """False also where its controller does not say: that is told when its turn comes."""
    try:
        return state(known) == "On"
    except ApplianceError:
        return False


def _one(work: Work, known: Controller) -> Provisioned:
    """One host from whatever it is to a system that answers with the key it said it has."""
    began = time.monotonic()
    verified = False
    try:
        verified = _install(work, known)
    except ApplianceError as error:
        # A controller may repeat the address of its medium, which is a secret.
        told = ApplianceError(work.server.redacted(error.message), error.hint)
        return Provisioned(known.host, State.FAILED, time.monotonic() - began, told)
    finally:
        work.server.dismiss(known.host)
    seconds = time.monotonic() - began
    return Provisioned(known.host, State.INSTALLED, seconds, is_verified=verified)


def _install(work: Work, known: Controller) -> bool:
    host = work.session.site.host(known.host)
    stop = work.session.cancelled.is_set
    verified = _start(work, known, host)
    key = _installed(work, host.name)
    with Redfish(known, work.patience) as controller:
        drive = Drive(controller)
        drive.eject()
        drive.start_once(Source.DISK)
    _pin(work, host, key)
    # The installer switches the machine off once it is told that this was heard.
    off_first = (Order.FORCE_OFF, Order.ON)
    time.sleep(work.deadlines.pause)
    switch(known, off_first, work.waiting, work.patience, stop)
    _answers(work, host)
    return verified


def _pin(work: Work, host: Host, key: str) -> None:
    """The key that the installer made is the one that the system must show. Raises ApplianceError."""
    kind, _, body = key.partition(" ")
    if complaint(key):
        raise ApplianceError("its installer told no host key", "install it again")
    access = work.session.site.access
    name = known_hosts_name(str(host.address), access.port)
    with work.pinning:
        known_keys.replace(
            work.session.folder / access.known_hosts, {name: f"{name} {kind} {body.split()[0]}\n"}
        )
    work.session.remote.leave(host.name)


def _start(work: Work, known: Controller, host: Host) -> bool:
    """Switches the machine on with its own medium in; returns whether the controller knows whom it fetched it from."""
    guest = Guest(host.name, work.folder / f"{host.name}.iso")
    url = work.server.admit(guest, work.deadlines.whole)
    served = ServedFrom(work.server.url, work.server.fingerprint, guest.token)
    again = host.name in work.reinstall
    told = settings(work.session.site, host, work.image, work.key, served, reinstall=again)
    media.make(work.image, told, guest.medium)
    stop = work.session.cancelled.is_set
    if not again and state(known, work.patience) != "Off":
        raise ApplianceError(AT_WORK, OFF_FIRST.format(hosts=host.name))
    switch(known, (Order.FORCE_OFF,), work.waiting, work.patience, stop)
    with Redfish(known, work.patience) as controller:
        drive = Drive(controller)
        drive.insert(url, work.server.certificate)
        drive.start_once(Source.DISC)
    switch(known, (Order.ON,), work.waiting, work.patience, stop)
    return drive.is_verified


def _installed(work: Work, host: str) -> str:
    """Waits for the installer's last word; returns the host key it made. Raises ApplianceError."""
    began = time.monotonic()
    while True:
        heard = work.reports.last(host)
        now = time.monotonic()
        if heard and heard.state == "installed":
            return str(heard.said.get("host_key", ""))
        if heard and heard.state == "refused":
            raise ApplianceError(str(heard.said.get("message")), str(heard.said.get("fix", "")))
        if work.session.cancelled.is_set():
            raise ApplianceError("interrupted; its disk is not bootable until it was written whole")
        if heard is None and now - began > work.deadlines.start:
            raise DeadlineExceeded(
                f"its installer did not start within {work.deadlines.start:g} s",
                "look at its console: does it start from the virtual disc, and does its management port reach "
                f"{work.server.url}?",
            )
        if heard and now - heard.at > work.deadlines.silence:
            raise DeadlineExceeded(
                f"its installer has been silent for {work.deadlines.silence:g} s; its last word was: "
                + _step(heard.state, heard.said),
                "look at its console; then install it again",
            )
        work.reports.wait(1.0)


def _answers(work: Work, host: Host) -> None:
    """Waits until the installed system answers by ssh, with the key that was pinned, and says which image it is."""
    ends = time.monotonic() + work.deadlines.system
    last: ApplianceError | None = None
    while time.monotonic() < ends and not work.session.cancelled.is_set():
        try:
            runs = _identity(work.session, host.name)
        except ApplianceError as error:
            last = error
        else:
            if runs == work.image.digest:
                return
            raise ApplianceError(
                "it started from another disk than the one that was written",
                "put that disk first in the firmware's boot order, or take the old system off the other",
            )
        time.sleep(work.deadlines.pause)
    why = last.message if last else "it does not answer"
    raise DeadlineExceeded(
        f"its system does not answer within {work.deadlines.system:g} s: {why}",
        "look at its console: what did it start from?",
    )


def _runs(session: Session, host: str) -> str:
    """The image a host runs: its digest, "another" for a system that is none, "" where nobody answers."""
    try:
        return _identity(session, host) or "another"
    except ApplianceError:
        return ""


def _identity(session: Session, host: str) -> str:
    reading = ("sed", "-n", r's/.*"image": "\([0-9a-f]\{64\}\)".*/\1/p', IDENTITY)
    return session.remote.run(host, reading, timeout=20).stdout.strip()


def _options(session: Session) -> ProvisionOptions:
    if session.site.provision is None:
        raise ConfigError(f"site {session.site.name} names no image for its machines", NO_IMAGE)
    return session.site.provision


def _image(session: Session) -> Image:
    options = _options(session)
    signers = session.folder / options.signers if options.signers else None
    return manifest.read(session.folder / options.image, signers)


def _chosen(session: Session, hosts: tuple[str, ...]) -> list[Host]:
    only = named(hosts, [host.name for host in session.site.hosts])
    return [host for host in session.site.hosts if not only or host.name in only]


def _public_key(session: Session) -> str:
    """The public half of the key that the site logs in with; the installed system lets nobody else in."""
    name = session.site.access.private_key
    if name is None:
        raise ConfigError(
            "the site names no key to log in with, and a new system has no other door",
            "make one and name it: access.private_key in site.yml",
        )
    told = run(("ssh-keygen", "-y", "-P", "", "-f", str(session.folder / name)), check=False)
    if told.returncode:
        raise ConfigError(
            f"{session.folder / name} is no private key without a passphrase",
            "name another: access.private_key in site.yml",
        )
    return told.stdout.strip()
