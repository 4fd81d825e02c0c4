"""One bare machine, from power-on to a running system with the expected host key."""

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address
from pathlib import Path

from appliance.adapters.redfish import Controller, Patience, Redfish
from appliance.adapters.remote import known_hosts_name
from appliance.bmc.media import Drive, Source
from appliance.bmc.power import Order, Waiting, state, switch
from appliance.config import known_hosts_lines
from appliance.config.public_key import complaint
from appliance.engine.session import Session
from appliance.errors import AnotherKey, ApplianceError, DeadlineExceeded
from appliance.models.events import Message, Observer
from appliance.models.site import Host, Site
from appliance.provision import dhcp, media
from appliance.provision.manifest import Image
from appliance.provision.server import BootServer, Guest, Report
from appliance.provision.settings import ServedFrom, settings

AT_WORK = "it is on, but does not answer SSH with a pinned key"
OFF_FIRST = "if nothing runs there: appliance power off {hosts} --hard --force"
BOOT_ORDER = (
    "put that disk first in the firmware's boot order, or remove the old system from the other disk"
)
IDENTITY = "/etc/appliance/image.json"
MOST_SHOWN = 50
"""Messages accepted from one machine during its installation; a normal one sends six."""


class State(StrEnum):
    """The result for one host."""

    INSTALLED = "installed"
    RUNS_IT = "runs this image"
    FAILED = "failed"


@dataclass(frozen=True)
class Deadlines:
    """Timeouts of each step of one host, in seconds. Servers test their memory for minutes before they start."""

    start: float = 900.0
    silence: float = 300.0
    system: float = 900.0
    pause: float = 1.0

    @property
    def whole(self) -> float:
        """The sum: nothing of a host is valid for longer."""
        return 2 * self.start + self.system + 3600.0


@dataclass(frozen=True)
class Provisioned:
    """One host, and why it was not installed, if it was not."""

    host: str
    state: State
    seconds: float = 0.0
    error: ApplianceError | None = None
    is_verified: bool = True
    """Whether its BMC verified the certificate of the server it fetched the medium from."""
    strangers: tuple[str, ...] = ()
    """DHCP servers that answered the host and are not listed in the site."""


@dataclass
class MachineReport:
    """The messages of one machine; written by the server's threads."""

    state: str = ""
    said: Mapping[str, object] = field(default_factory=dict)
    at: float = field(default_factory=time.monotonic)


class Reports:
    """The messages of machines during installation, for the threads that wait for them."""

    def __init__(self, observer: Observer, site: Site) -> None:
        self._observer, self._site = observer, site
        self._changed = threading.Condition()
        self._heard: dict[str, MachineReport] = {}
        self._strangers: dict[str, tuple[str, ...]] = {}
        self._known: set[tuple[IPv4Address, str]] = set()
        self._shown: dict[str, int] = {}

    def take(self, host: str, said: Report) -> None:
        """Another report of a host; steps are shown, not each percent."""
        state = str(said.get("state", ""))
        with self._changed:
            before = self._heard.get(host)
            self._heard[host] = MachineReport(state, said)
            self._changed.notify_all()
        if before is None or before.state != state:
            self._show(host, Message(text=f"{host}: {_step(state, said)}"))
        if "dhcp" in said:
            self._answered(host, str(said["dhcp"]))

    def _answered(self, host: str, said: str) -> None:
        """The DHCP servers that a host found; each unlisted one is reported once, by the first host that it answered."""
        found = dhcp.unexpected_servers(self._site, dhcp.servers(said))
        with self._changed:
            self._strangers[host] = tuple(dhcp.server_text(self._site, one) for one in found)
            new = [one for one in found if (one.address, one.mac) not in self._known]
            if self._shown.get(host, 0) < MOST_SHOWN:
                self._known |= {(one.address, one.mac) for one in new}
        for one in new:
            text = f"{host}: {dhcp.server_text(self._site, one)}: {dhcp.REMEDY}"
            self._show(host, Message(text=text, level="warning"))

    def _show(self, host: str, message: Message) -> None:
        """Largest number of messages shown for one machine: the screen is shared."""
        with self._changed:
            self._shown[host] = shown = self._shown.get(host, 0) + 1
        if shown <= MOST_SHOWN:
            self._observer.handle(message)

    def strangers(self, host: str) -> tuple[str, ...]:
        """DHCP servers that answered the host and are not listed in the site."""
        with self._changed:
            return self._strangers.get(host, ())

    def last(self, host: str) -> MachineReport | None:
        """The newest."""
        with self._changed:
            return self._heard.get(host)

    def wait(self, seconds: float) -> None:
        """Waits for the next message, with a timeout."""
        with self._changed:
            self._changed.wait(seconds)


def _step(state: str, said: Report) -> str:
    match state:
        case "started":
            return "its installer runs"
        case "disk":
            return f"installing on disk {said.get('disk')}"
        case "writing":
            return "writing the image"
        case "written":
            return f"image written in {said.get('seconds')} s, and verified"
        case "refused":
            return str(said.get("message"))
    return state


@dataclass(frozen=True)
class InstallRun:
    """What all hosts of one run have in common."""

    session: Session
    image: Image
    key: str
    server: BootServer
    here: Mapping[str, tuple[IPv4Address, IPv4Address]]
    """By host, the address of this machine for its BMC and for the host itself: they may be in two networks."""
    reports: Reports
    folder: Path
    reinstall: frozenset[str]
    deadlines: Deadlines
    waiting: Waiting
    patience: Patience
    pinning: threading.Lock = field(default_factory=threading.Lock)


def install(work: InstallRun, known: Controller) -> Provisioned:
    """One host, from any state to a running system with the expected host key."""
    began = time.monotonic()
    verified = False
    try:
        verified = _through(work, known)
    except ApplianceError as error:
        # A BMC may repeat the address of its medium, which is a secret.
        told = ApplianceError(work.server.redacted(error.message), error.hint)
        with suppress(ApplianceError), Redfish(known, work.patience) as controller:
            Drive(controller).eject()
        return Provisioned(
            known.host,
            State.FAILED,
            time.monotonic() - began,
            told,
            strangers=work.reports.strangers(known.host),
        )
    finally:
        work.server.dismiss(known.host)
        (work.folder / f"{known.host}.iso").unlink(missing_ok=True)
    seconds = time.monotonic() - began
    strangers = work.reports.strangers(known.host)
    return Provisioned(
        known.host, State.INSTALLED, seconds, is_verified=verified, strangers=strangers
    )


def _through(work: InstallRun, known: Controller) -> bool:
    host = work.session.site.host(known.host)
    stop = work.session.cancelled.is_set
    verified = _start(work, known, host)
    key = _installed(work, host.name)
    with Redfish(known, work.patience) as controller:
        drive = Drive(controller)
        drive.eject()
        drive.start_once(Source.DISK)
    _pin(work, host, key)
    # The installer powers off after its last message is confirmed; by then everything is on the disk.
    time.sleep(work.deadlines.pause)
    switch(known, (Order.FORCE_OFF, Order.ON), work.waiting, work.patience, stop)
    _answers(work, host)
    return verified


def _pin(work: InstallRun, host: Host, key: str) -> None:
    """Pins the host key that the installer created, which the system must show. Raises ApplianceError."""
    kind, _, body = key.partition(" ")
    if complaint(key):
        raise ApplianceError("its installer reported no host key", "install it again")
    access = work.session.site.access
    name = known_hosts_name(str(host.address), access.port)
    with work.pinning:
        known_hosts_lines.replace(
            work.session.folder / access.known_hosts, {name: f"{name} {kind} {body.split()[0]}\n"}
        )
    work.session.remote.leave(host.name)


def _start(work: InstallRun, known: Controller, host: Host) -> bool:
    """Switches the machine on with its own medium; returns whether the BMC verified the server it fetched it from."""
    guest = Guest(host.name, work.folder / f"{host.name}.iso")
    of_controller, of_host = work.here[host.name]
    url = work.server.url(of_controller) + work.server.admit(guest, work.deadlines.whole)
    served = ServedFrom(work.server.url(of_host), work.server.fingerprint, guest.token)
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


def _installed(work: InstallRun, host: str) -> str:
    """Waits for the installer's last message; returns the host key it created. Raises ApplianceError."""
    began = time.monotonic()
    while True:
        heard = work.reports.last(host)
        now = time.monotonic()
        if heard and heard.state == "installed":
            return str(heard.said.get("host_key", ""))
        if heard and heard.state == "refused":
            raise ApplianceError(str(heard.said.get("message")), str(heard.said.get("fix", "")))
        if work.session.cancelled.is_set():
            raise ApplianceError(
                "interrupted; its disk is not bootable before the image is completely written"
            )
        if heard is None and now - began > work.deadlines.start:
            raise DeadlineExceeded(
                f"its installer did not start within {work.deadlines.start:g} s",
                "check its console: did it start from the virtual disc, and can its management port reach "
                f"{work.server.url(work.here[host][1])}?",
            )
        if heard and now - heard.at > work.deadlines.silence:
            raise DeadlineExceeded(
                f"its installer has been silent for {work.deadlines.silence:g} s; its last message was: "
                + _step(heard.state, heard.said),
                "check its console; then install it again",
            )
        work.reports.wait(1.0)


def _answers(work: InstallRun, host: Host) -> None:
    """Waits until the installed system answers SSH with the pinned key, and reports its image."""
    ends = time.monotonic() + work.deadlines.system
    last: ApplianceError | None = None
    while time.monotonic() < ends:
        if work.session.cancelled.is_set():
            raise ApplianceError("interrupted; it is installed and starting")
        try:
            runs = identity(work.session, host.name)
        except AnotherKey:
            raise ApplianceError(
                "the key of the host differs from the key that its installer created: it booted from the wrong disk, "
                "or another machine has its address",
                BOOT_ORDER,
            ) from None
        except ApplianceError as error:
            last = error
        else:
            if runs == work.image.digest:
                return
            raise ApplianceError("booted from the wrong disk", BOOT_ORDER)
        time.sleep(work.deadlines.pause)
    why = last.message if last else "it does not answer"
    raise DeadlineExceeded(
        f"its system did not answer within {work.deadlines.system:g} s: {why}",
        "check its console: what did it boot from?",
    )


def identity(session: Session, host: str) -> str:
    """The digest of the image that a host reports; "" if its system is not from an image. Raises ApplianceError."""
    reading = ("sed", "-n", r's/.*"image": "\([0-9a-f]\{64\}\)".*/\1/p', IDENTITY)
    return session.remote.run(host, reading, timeout=20).stdout.strip()
