"""A profile from a host that is as it should be: its hardware is what that host shows, the rest is its site's profile's."""

import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from appliance.actions.bounds import check_ids
from appliance.actions.opening import Target, open_session
from appliance.actions.shown_hardware import shown_hardware
from appliance.config.document import text_of
from appliance.config.finding import InvalidConfig
from appliance.config.load import load_profile
from appliance.engine.named import named
from appliance.engine.record import simulated_areas
from appliance.engine.session import Session
from appliance.engine.survey import survey
from appliance.errors import ConfigError
from appliance.models.events import Observer
from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.text import plural

WHOLE = "capture from a host whose GPUs are all there and alike: appliance health"


@dataclass(frozen=True)
class Captured:
    """A sound profile and its text. ``kept``: keys of hardware that the host did not show; ``simulated``: areas it made up."""

    profile: Profile
    text: str
    kept: tuple[str, ...]
    simulated: tuple[str, ...]


def capture(target: Target, host: str, name: str, observer: Observer) -> Captured:
    """Asks ``host`` what it is; changes nothing.

    Raises ConfigError where it does not answer, shows no GPUs or different ones, or nothing that a profile may be.
    """
    with open_session(target, "capture", observer, only_looks=True) as session:
        names = named([host], [h.name for h in session.site.hosts])
        if len(names) != 1:
            raise ConfigError(f"{host} is not one host", "name the one that is as it should be")
        found = survey(session, names)
        facts = found.facts.get(names[0])
        if facts is None:
            silent = found.unanswered[names[0]]
            raise ConfigError(f"{names[0]} gave no facts: {silent.cause}", silent.fix)
        return _captured(session, names[0], name, facts)


def write(captured: Captured, file: Path) -> None:
    """Writes it into a new file. Raises ConfigError."""
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(captured.text)
    except FileExistsError:
        raise ConfigError(f"{file} exists", "name another file, or remove it yourself") from None
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written ({error.strerror})", "choose another place"
        ) from None


def _captured(session: Session, host: str, name: str, facts: HostFacts) -> Captured:
    own = shown_hardware(facts, session.site)
    if "gpu.count" not in own or "gpu.models" not in own:
        raise ConfigError(f"{host} shows {_lack(facts)}", WHOLE)
    base = session.profile
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
        return f"different GPUs: {', '.join(sorted(set(named_ones)))}"
    return f"{plural(facts.pci_gpus, 'GPU')} on its PCI bus, and its driver names {len(named_ones)}"


def _head(
    host: str, site: Site, base: Profile, kept: tuple[str, ...], simulated: tuple[str, ...]
) -> list[str]:
    day = datetime.now().astimezone().date().isoformat()
    lines = [
        f"Captured from {host} of site {site.name} on {day}: hardware is what that host shows.",
        f"Software, stages and limits are those of profile {base.name}.",
    ]
    lines += [f"Not shown there, so as in {base.name}: hardware.{key}" for key in kept]
    if simulated:
        lines.append(f"Simulated there, so of no real machine: {', '.join(simulated)}")
    return lines


def _sound(text: str, host: str) -> Profile:
    """The profile as it will be read again. Raises ConfigError for what no rule allows."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "captured.yml"
        file.write_text(text, encoding="utf-8")
        try:
            return load_profile(file, check_ids())
        except InvalidConfig as error:
            wrong = error.findings[0]
            raise ConfigError(
                f"what {host} shows is no profile: {wrong.key} {wrong.message}", wrong.remedy
            ) from None
