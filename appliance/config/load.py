"""Loads profile and site from their files; finds everything that is wrong with them before a host is contacted."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from appliance.config import data, image_lock
from appliance.config.document import Document, read
from appliance.config.finding import Finding, InvalidConfig, KeyPath, printable
from appliance.config.named_files import require_ours
from appliance.config.rules import judge_profile, judge_site
from appliance.config.schema import Checked, check
from appliance.errors import ConfigError
from appliance.models.bound import Bounds
from appliance.models.images import ImageLock
from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.ownership import require_all
from appliance.stages.mig.layouts import completed

SITE_FILE = "site.yml"


@dataclass(frozen=True)
class LoadedSite:
    """A valid site with the profile it uses, in which the site's ``software`` is already effective.

    ``profile`` is the site's own; ``profile_of`` returns that of each host. ``class_documents``: files of further classes.
    ``folder`` is absolute: programs started elsewhere are given paths in it.
    ``todo`` lists steps left to the owner; code that contacts hosts calls ``require_ready`` first.
    """

    site: Site
    profile: Profile
    folder: Path
    site_document: Document
    profile_document: Document
    todo: tuple[Finding, ...] = ()
    lock: ImageLock | None = None
    class_documents: tuple[Document, ...] = ()

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files this was read from."""
        classes = (document.file for document in self.class_documents)
        return (self.site_document.file, self.profile_document.file, *classes)

    def profile_of(self, host: str) -> Profile:
        """The profile of a host's class."""
        return self.site.profile_of(host, self.profile)

    def where(self, *path: str | int) -> str:
        """``file:line`` of a key of the site, or of its closest ancestor in the file."""
        return f"{self.site_document.file}:{self.site_document.line(path)}"

    def require_ready(
        self, *, only_looks: bool = False, by_ssh: bool = True, learns_keys: bool = False
    ) -> None:
        """Raises InvalidConfig while steps are left; read-only verbs need no root login.

        ``by_ssh``: the hosts are contacted over SSH; otherwise their keys may still be unknown. ``learns_keys``: the keys
        are learned during the action.
        """
        later = {"access.user"} if only_looks else set()
        later |= set() if by_ssh else {"access.user", "access.known_hosts"}
        later |= {"access.known_hosts"} if learns_keys else set()
        left = [step for step in self.todo if step.key not in later]
        if left:
            raise InvalidConfig(left)


def load_profile(name_or_path: str | Path, check_ids: Bounds | None = None) -> Profile:
    """A profile by file, or by name: from the folder ``profiles`` of a site, from ``./profiles``, or from the program.

    ``check_ids``: the accepted limits by id of the check; None skips that rule. Raises InvalidConfig, ConfigError.
    """
    checked, findings = _profile(find_profile(name_or_path), check_ids)
    if checked.model is None or findings:
        raise InvalidConfig(findings)
    return checked.model


def load_site(
    folder: str | Path,
    profile_override: str | Path | None = None,
    *,
    check_ids: Bounds | None = None,
) -> LoadedSite:
    """The site in ``folder`` (or the file itself) with its profile. Raises InvalidConfig with every finding."""
    file = site_file(folder)
    require_all(file.parent, file)
    site = check(read(file), Site)
    if site.model is not None:
        require_ours(site.model, file.parent)
    profile, findings = _profile_of(site, profile_override, check_ids)
    classes, unsound = _classes(site, profile, check_ids, is_override=profile_override is not None)
    lock, damaged = image_lock.read(file.parent)
    own = profile.model if profile else None
    findings = [
        *site.findings,
        *findings,
        *unsound,
        *damaged,
        *judge_site(_with_classes(site, own, classes), own, check_ids),
    ]
    problems = [f for f in findings if f.level == "problem"]
    if problems or site.model is None or own is None or profile is None:
        raise InvalidConfig(findings)
    chosen = effective(own, site.model)
    made = site.model.with_profiles(_by_host(site.model, chosen, classes))
    return LoadedSite(
        site=completed(made, chosen),
        profile=chosen,
        folder=file.parent.absolute(),
        site_document=site.document,
        profile_document=profile.document,
        todo=tuple(findings),
        lock=lock,
        class_documents=tuple({id(one): one.document for one in classes.values()}.values()),
    )


def site_file(folder: str | Path) -> Path:
    """``site.yml`` of a folder. Raises ConfigError if there is none."""
    path = Path(folder)
    try:
        file = path / SITE_FILE if path.is_dir() else path
        is_there, has_site = path.exists(), file.exists()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror})", "check its owner and mode"
        ) from None
    if not is_there:
        raise ConfigError(
            f"{path} does not exist",
            f"create a site: appliance init {shlex.quote(str(path))} --count 4 --profile hpc",
        )
    if not has_site:
        raise ConfigError(
            f"{path} contains no {SITE_FILE}",
            f"create a site: appliance init {shlex.quote(str(path))} --count 4 --profile hpc",
        )
    return file


def find_profile(name_or_path: str | Path, site: Path | None = None) -> Path:
    """The file of a profile; a name is first searched in the folder ``profiles`` of the site.

    Raises ConfigError, naming the available profiles and where they were searched.
    """
    text = str(name_or_path)
    if "/" in text or text.endswith((".yml", ".yaml")):
        return Path(text)
    for file in _offered(site):
        if file.stem == text:
            return file
    places = " and ".join(str(folder.absolute()) for folder in _folders(site))
    raise ConfigError(
        f'unknown profile: "{printable(text)}"',
        f"available: {', '.join(profile_names(site))} (in {places}, and from the program); or give a file",
    )


def profile_names(site: Path | None = None) -> tuple[str, ...]:
    """Names that ``find_profile`` finds from here."""
    return tuple(sorted({file.stem for file in _offered(site)}))


def _folders(site: Path | None) -> tuple[Path, ...]:
    """Folders of custom profiles: next to the site, and in the current folder, with its full path if it is another folder."""
    here = Path("profiles")
    if site is None or os.path.realpath(site) == os.path.realpath(Path()):
        return (here,)
    return (site / here, here.absolute())


def _offered(site: Path | None) -> tuple[Path, ...]:
    """Profiles by name, custom ones first. A folder that is missing or unreadable has none."""
    return (
        *(file for folder in _folders(site) for file in _in(folder)),
        *data.profiles().glob("*.yml"),
    )


def _in(own: Path) -> tuple[Path, ...]:
    try:
        own.stat()
    except OSError:
        return ()
    try:
        return tuple(own.glob("*.yml"))
    except OSError as error:
        raise ConfigError(
            f"{own.absolute()} cannot be read ({error.strerror}); its profiles cannot be found",
            "correct its owner and mode, or change to another folder",
        ) from None


def effective(profile: Profile, site: Site) -> Profile:
    """The profile with the site's releases in place of its own."""
    software = profile.software.model_copy(update=dict(site.software))
    return profile.model_copy(update={"software": software})


def _profile(file: Path, check_ids: Bounds | None) -> tuple[Checked[Profile], list[Finding]]:
    if not file.is_relative_to(data.profiles()):
        require_all(file.parent, file)
    checked = check(read(file), Profile)
    return checked, [*checked.findings, *judge_profile(checked, check_ids)]


def _profile_of(
    site: Checked[Site], override: str | Path | None, check_ids: Bounds | None
) -> tuple[Checked[Profile] | None, list[Finding]]:
    path: KeyPath = ("profile",)
    name = override if override is not None else (site.model.profile if site.model else None)
    if name is None:
        missing = site.model is not None and site.whole(*path)
        remedy = f"add profile: {' | '.join(profile_names())}, or give --profile"
        return None, [site.finding(path, "is missing", remedy)] if missing else []
    try:
        return _profile(_resolved(site.document.file, name, override), check_ids)
    except InvalidConfig as error:
        return None, [_at_key(site, path, f, override) for f in error.findings]
    except ConfigError as error:
        if override is not None:
            raise
        return None, [site.finding(path, error.message, error.hint)]


def _classes(
    site: Checked[Site],
    profile: Checked[Profile] | None,
    check_ids: Bounds | None,
    *,
    is_override: bool,
) -> tuple[dict[str, Checked[Profile]], list[Finding]]:
    """The further classes by the text that names them, and what is wrong with them.

    A profile given instead of the site's (``is_override``) also applies to hosts whose class has its name.
    """
    found: dict[str, Checked[Profile]] = {}
    findings: list[Finding] = []
    seen: set[str] = set()
    for i, host in enumerate(site.model.hosts if site.model else ()):
        name, path = host.hardware_class, ("hosts", i, "class")
        if name is None or name in seen:
            continue
        seen.add(name)
        try:
            file = _resolved(site.document.file, name, None)
            one, wrong = _profile(file, check_ids)
        except InvalidConfig as error:
            findings += [_at_key(site, path, f, None) for f in error.findings]
            continue
        except ConfigError as error:
            findings.append(site.finding(path, error.message, error.hint))
            continue
        if profile and os.path.realpath(file) == os.path.realpath(profile.document.file):
            continue
        if is_override and _have_one_name(one, profile):
            continue
        alike = (
            o for o in found.values() if os.path.realpath(o.document.file) == os.path.realpath(file)
        )
        if twin := next(alike, None):
            found[name] = twin
            continue
        same = [other for other in (profile, *found.values()) if _have_one_name(one, other)]
        if same and same[0]:
            wrong = [*wrong, _named_alike(site, path, one, same[0])]
        found[name] = one
        findings += wrong
    return found, findings


def _have_one_name(one: Checked[Profile], other: Checked[Profile] | None) -> bool:
    models = one.model, other.model if other else None
    return models[0] is not None and models[1] is not None and models[0].name == models[1].name


def _named_alike(
    site: Checked[Site], path: KeyPath, one: Checked[Profile], other: Checked[Profile]
) -> Finding:
    name = one.model.name if one.model else ""
    message = f"{one.document.file} and {other.document.file} both define class {name}"
    return site.finding(path, message, "give each its own name (key name of the profile)")


def _by_host(
    site: Site, own: Profile, classes: Mapping[str, Checked[Profile]]
) -> dict[str, Profile]:
    """The classes of all hosts, if any host has a class other than the site's; else none."""
    made = {
        one.document.file: effective(one.model.beside(own), site)
        for one in classes.values()
        if one.model
    }
    known = {
        name: made[one.document.file] for name, one in classes.items() if one.document.file in made
    }
    if not known:
        return {}
    return {host.name: known.get(host.hardware_class or "", own) for host in site.hosts}


def _with_classes(
    site: Checked[Site], own: Profile | None, classes: Mapping[str, Checked[Profile]]
) -> Checked[Site]:
    if site.model is None or own is None:
        return site
    made = site.model.with_profiles(_by_host(site.model, own, classes))
    return replace(site, model=made)


def _at_key(
    site: Checked[Site], path: KeyPath, finding: Finding, override: str | Path | None
) -> Finding:
    """A file that cannot be read is reported at the line that names it."""
    if override is not None or finding.line:
        return finding
    return site.finding(path, f"{finding.file} {finding.message}", finding.remedy)


def _resolved(site_file: Path, name: str | Path, override: str | Path | None) -> Path:
    """A path in the site is relative to the site's folder, a path on the command line to the current one."""
    if override is None and "/" in str(name):
        return site_file.parent / name
    return find_profile(name, site_file.parent)
