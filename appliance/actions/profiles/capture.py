"""A profile captured from a correctly configured host: the hardware is that of the host, the rest is from the site's profile."""

import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from appliance.actions.profiles.captured_hardware import shown_hardware
from appliance.actions.profiles.limit_bounds import check_ids
from appliance.actions.sites.opening import Target, open_session
from appliance.config.document import text_of
from appliance.config.finding import InvalidConfig
from appliance.config.load import load_profile
from appliance.engine.host_names import named_hosts
from appliance.engine.look.run_record import simulated_areas
from appliance.engine.look.survey import survey
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.models.events import Observer
from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.text import plural

WHOLE = "capture from a host whose GPUs are all present and identical: appliance health"


@dataclass(frozen=True)
class Captured:
    """A valid profile and its text. ``kept``: keys of hardware that the host did not report; ``simulated``: simulated areas."""

    profile: Profile
    text: str
    kept: tuple[str, ...]
    simulated: tuple[str, ...]


def capture(target: Target, host: str, name: str, observer: Observer) -> Captured:
    """Reads the hardware of ``host``; changes nothing.

    Raises ConfigError if it does not answer, has no GPUs or different ones, or reports values that a profile cannot have.
    """
    with open_session(target, "capture", observer, only_looks=True) as session:
        names = named_hosts([host], [h.name for h in session.site.hosts])
        if len(names) != 1:
            raise ConfigError(
                f"{host} does not name a single host", "name one correctly configured host"
            )
        found = survey(session, names)
        facts = found.facts.get(names[0])
        if facts is None:
            silent = found.unanswered[names[0]]
            raise ConfigError(f"{names[0]} gave no facts: {silent.cause}", silent.fix)
        return _captured(session, names[0], name, facts)


def write(captured: Captured, file: Path) -> None:
    """Writes it to a new file. Raises ConfigError."""
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(captured.text)
    except FileExistsError:
        raise ConfigError(f"{file} exists", "name another file, or remove it yourself") from None
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written ({error.strerror})", "choose another path"
        ) from None


def _captured(session: Session, host: str, name: str, facts: HostFacts) -> Captured:
    own = shown_hardware(facts, session.site)
    if "gpu.count" not in own or "gpu.models" not in own:
        raise ConfigError(f"{host} shows {_lack(facts)}", WHOLE)
    base = session.profile_of(host)
    hardware = base.hardware.model_dump(mode="json")
    for key, value in own.items():
        part, _, field = key.partition(".")
        hardware[part][field] = value
    keys = [f"{part}.{field}" for part, fields in hardware.items() for field in fields]
    kept = tuple(key for key in keys if key not in own)
    simulated = simulated_areas(session, {host: facts})
    title = f"{hardware['gpu']['count']} x {own['gpu.models'][0]}, captured from {host}"
    document = base.model_dump(mode="json", exclude_defaults=True)
    document |= {"name": name, "title": title, "hardware": hardware}
    head = _head(host, session.site, base, kept, simulated)
    text = "".join(f"# {line}\n" for line in head) + text_of(document)
    return Captured(_sound(text, host), text, kept, simulated)


def _lack(facts: HostFacts) -> str:
    if not facts.pci_gpus:
        return "no GPUs on its PCI bus"
    named_ones = [gpu.name for gpu in facts.gpus.devices if gpu.name] if facts.gpus else []
    if len(set(named_ones)) > 1:
        return f"its GPUs differ: {', '.join(sorted(set(named_ones)))}"
    return f"{plural(facts.pci_gpus, 'GPU')} on its PCI bus, but the driver lists {len(named_ones)}"


def _head(
    host: str, site: Site, base: Profile, kept: tuple[str, ...], simulated: tuple[str, ...]
) -> list[str]:
    day = datetime.now().astimezone().date().isoformat()
    lines = [
        f"Captured from {host} of site {site.name} on {day}: hardware is as reported by that host.",
        f"Software, stages and limits are those of profile {base.name}.",
    ]
    lines += [f"Not reported there, so taken from {base.name}: hardware.{key}" for key in kept]
    if simulated:
        lines.append(f"Simulated there, so not from real hardware: {', '.join(simulated)}")
    return lines


def _sound(text: str, host: str) -> Profile:
    """Reads the profile back. Raises ConfigError if a rule refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "captured.yml"
        file.write_text(text, encoding="utf-8")
        try:
            return load_profile(file, check_ids())
        except InvalidConfig as error:
            wrong = error.findings[0]
            raise ConfigError(
                f"the values of {host} are not a valid profile: {wrong.key} {wrong.message}",
                wrong.remedy,
            ) from None
