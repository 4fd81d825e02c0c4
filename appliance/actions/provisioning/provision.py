"""Provision: installs bare machines from an image, by the virtual media of their BMCs."""

import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.actions.provisioning import bare_machine
from appliance.actions.provisioning.bare_machine import (
    Deadlines,
    InstallRun,
    Provisioned,
    Reports,
    State,
    identity,
)
from appliance.actions.sites.interrupts import interruptible
from appliance.actions.sites.opening import Target, open_session
from appliance.adapters import signing
from appliance.adapters.process import run
from appliance.adapters.redfish import Controller, Patience
from appliance.adapters.route import source_towards
from appliance.bmc.power import Waiting, state
from appliance.engine.host_names import named_hosts
from appliance.engine.look.controllers import controllers
from appliance.engine.look.gather import each
from appliance.engine.run.lease import control_hosts, leased_by_run, require_free
from appliance.engine.run.machines_in_use import REMEDY, machines_in_use
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Message, Observer
from appliance.models.provision import ProvisionOptions
from appliance.models.site import Host
from appliance.provision import build, manifest, media, programs
from appliance.provision.building import Progress
from appliance.provision.manifest import Image
from appliance.provision.recipe import Recipe
from appliance.provision.server import BootServer
from appliance.provision.settings import settings
from appliance.provision.sources import RELEASES, machine_sources
from appliance.report.formatting import fold

NO_IMAGE = "build one (appliance provision build) and name it: provision.image in site.yml"
Consent = Callable[[tuple[str, ...]], bool]
"""Called with the hosts that are to be installed."""
PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]{1,99}")
"""Debian Policy, 5.6.1."""


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
            raise ConfigError(f'"{package}" is not a valid package name', "correct --package")
    recipe = Recipe(release, machine_sources(progress, RELEASES[release]), packages)
    return build.build(recipe, folder, progress, key)


def media_for(
    target: Target,
    hosts: tuple[str, ...],
    output: Path,
    reinstall: tuple[str, ...],
    observer: Observer,
) -> list[Path]:
    """An ISO with the image for each host, for sites where BMCs cannot fetch it. Raises ApplianceError."""
    with open_session(target, "provision", observer, keeps=True, by_ssh=False) as session:
        programs.require(programs.MEDIA)
        image, key = _image(session), _public_key(session)
        chosen = _chosen(session, hosts)
        again = named_hosts(reinstall, [host.name for host in chosen], flag="--reinstall")
        try:
            output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{output} cannot be created ({error.strerror})") from None
        made = []
        for host in chosen:
            file = output / f"{host.name}.iso"
            told = settings(session.site, host, image, key, None, reinstall=host.name in again)
            media.make(image, told, file, with_disk=True)
            made.append(file)
        return made


def install(
    target: Target,
    hosts: tuple[str, ...],
    reinstall: tuple[str, ...],
    observer: Observer,
    consent: Consent,
    *,
    force: bool = False,
    deadlines: Deadlines | None = None,
    waiting: Waiting | None = None,
    patience: Patience | None = None,
) -> list[Provisioned] | None:
    """Installs these hosts and those of ``reinstall`` (none: all with a BMC); None if the user declined.

    A host that runs the image is skipped. A host that runs another system, or whose disk holds data, is installed only
    if ``reinstall`` names it. If it carries work, or if that is unknown, it also needs ``force``. A host's own failure is a value.
    """
    with open_session(target, "provision", observer, changes=True, by_ssh=False) as session:
        _options(session)
        programs.require(programs.MEDIA)
        again = frozenset(
            named_hosts(reinstall, [h.name for h in session.site.hosts], flag="--reinstall")
        )
        known = controllers(session, sorted({*hosts, *again}))
        image, key = _image(session), _public_key(session)
        running = {name: _runs(session, name) for name in known if name not in again}
        if not force and (
            carried := machines_in_use(session, {name: known[name] for name in again})
        ):
            raise ConfigError("; ".join(f"{n}: {why}" for n, why in carried.items()), REMEDY)
        _refuse_others(running, image, {n: c for n, c in known.items() if not running.get(n, "?")})
        done = [
            Provisioned(name, State.RUNS_IT)
            for name, runs in running.items()
            if runs == image.digest
        ]
        rest = {name: known[name] for name in known if name not in {d.host for d in done}}
        if not rest:
            return done
        # Leases on their current system may still name this run.
        require_free(session, sorted(again & rest.keys()))
        if not consent(tuple(rest)):
            return None
        session.journal.append(session.run, "run_started", verb="provision install")
        limits = Limits(deadlines or Deadlines(), waiting or Waiting(), patience)
        done += _side_by_side(session, image, key, rest, again, limits)
        failed = any(one.error for one in done)
        session.journal.append(session.run, "run_finished", exit=int(failed))
        return done


def install_bare(
    session: Session, hosts: Iterable[str], consent: Consent
) -> list[Provisioned] | None:
    """Installs those of these hosts (never installed from here: actions/provisioning/new_hosts.py) whose BMC reports that they are off.

    The installer on the machine checks its disk, and writes only to an empty one. None if the user declined.
    """
    known = {}
    for name, one in controllers(session, hosts).items():
        try:
            if state(one) == "Off":
                known[name] = one
        except ApplianceError as error:
            text = f"{name}: cannot determine whether to install it: {error.message}"
            session.tell(Message(text=text, level="warning"))
    if not known:
        return []
    programs.require(programs.MEDIA)
    image, key = _image(session), _public_key(session)
    if not consent(tuple(known)):
        return None
    limits = Limits(Deadlines(), Waiting(), None)
    return _side_by_side(session, image, key, known, frozenset(), limits)


@dataclass(frozen=True)
class Limits:
    """Timeouts."""

    deadlines: Deadlines
    waiting: Waiting
    patience: Patience | None


def _side_by_side(
    session: Session,
    image: Image,
    key: str,
    known: Mapping[str, Controller],
    again: frozenset[str],
    limits: Limits,
) -> list[Provisioned]:
    """Installs these hosts independently of each other.

    Leases are not kept on these hosts, but on control hosts that stay. Raises LeaseHeld.
    """
    options = _options(session)
    staying = [name for name in control_hosts(session) if name not in known]
    here = {
        name: (
            options.address or source_towards(one.address),
            options.address or source_towards(str(session.site.host(name).address)),
        )
        for name, one in known.items()
    }
    reports = Reports(session.observer, session.site)
    with (
        tempfile.TemporaryDirectory(prefix="appliance-media-") as folder,
        BootServer(
            {address for both in here.values() for address in both},
            options.port,
            image.path(manifest.DISK),
            reports.take,
        ) as server,
        interruptible(session),
        leased_by_run(session, staying),
    ):
        work = InstallRun(
            session=session,
            image=image,
            key=key,
            server=server,
            here=here,
            reports=reports,
            folder=Path(folder),
            reinstall=again,
            deadlines=limits.deadlines,
            waiting=limits.waiting,
            patience=limits.patience or Patience(whole=600.0),
        )
        done = [
            found for _, found in each(known, lambda name: bare_machine.install(work, known[name]))
        ]
    for one in done:
        said = session.redact(one.error.message) if one.error else ""
        session.journal.append(
            session.run, "provisioned", host=one.host, state=one.state, cause=said
        )
    return done


def _refuse_others(
    running: Mapping[str, str], image: Image, silent: Mapping[str, Controller]
) -> None:
    """Refuses machines that may carry work. ``silent``: those that do not answer SSH with a pinned key."""
    others = sorted(name for name, runs in running.items() if runs not in ("", image.digest))
    if others:
        raise ConfigError(
            f"{fold(others)}: already runs another operating system",
            f"its disk would be erased; to do that, use --reinstall {fold(others)}",
        )
    if on := sorted(name for name, is_on in each(silent, lambda n: _is_on(silent[n])) if is_on):
        raise ConfigError(
            f"{fold(on)}: {bare_machine.AT_WORK}", bare_machine.OFF_FIRST.format(hosts=fold(on))
        )


def _is_on(known: Controller) -> bool:
    """False also if its BMC does not answer: that is reported later."""
    try:
        return state(known) == "On"
    except ApplianceError:
        return False


def _runs(session: Session, host: str) -> str:
    """The image a host runs: its digest, "another" for a system without one, "" without an answer."""
    try:
        return identity(session, host) or "another"
    except ApplianceError:
        return ""


def _options(session: Session) -> ProvisionOptions:
    if session.site.provision is None:
        raise ConfigError(f"site {session.site.name} has no image for its machines", NO_IMAGE)
    return session.site.provision


def _image(session: Session) -> Image:
    options = _options(session)
    signers = session.folder / options.signers if options.signers else None
    return manifest.read(session.folder / options.image, signers)


def _chosen(session: Session, hosts: tuple[str, ...]) -> list[Host]:
    only = named_hosts(hosts, [host.name for host in session.site.hosts])
    return [host for host in session.site.hosts if not only or host.name in only]


def _public_key(session: Session) -> str:
    """The public half of the site's login key; the installed system accepts only this key."""
    name = session.site.access.private_key
    if name is None:
        raise ConfigError(
            "the site has no login key, and a new system accepts no other login",
            "create one and name it: access.private_key in site.yml",
        )
    told = run(("ssh-keygen", "-y", "-P", "", "-f", str(session.folder / name)), check=False)
    if told.returncode:
        raise ConfigError(
            f"{session.folder / name} is not a private key without a passphrase",
            "name another: access.private_key in site.yml",
        )
    return told.stdout.strip()
