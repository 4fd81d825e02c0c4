"""Profile and site from their files: everything that is wrong with them is found before a host is contacted."""

import os
import shlex
from dataclasses import dataclass
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
    """A sound site with the profile it uses, in which the site's ``software`` is already effective.

    ``folder`` is absolute: programs that are started elsewhere are given paths in it.
    ``todo`` lists steps the owner still has to take; what contacts hosts calls ``require_ready`` first.
    """

    site: Site
    profile: Profile
    folder: Path
    site_document: Document
    profile_document: Document
    todo: tuple[Finding, ...] = ()
    lock: ImageLock | None = None

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files this was read from."""
        return (self.site_document.file, self.profile_document.file)

    def where(self, *path: str | int) -> str:
        """``file:line`` of a key of the site, or of its nearest ancestor that is written down."""
        return f"{self.site_document.file}:{self.site_document.line(path)}"

    def require_ready(
        self, *, only_looks: bool = False, by_ssh: bool = True, learns_keys: bool = False
    ) -> None:
        """Raises InvalidConfig while steps are still to be taken; who only looks need not be root.

        ``by_ssh``: the hosts themselves are asked; without, nobody need know their keys yet. ``learns_keys``: nor where they
        become known on the way.
        """
        later = {"access.user"} if only_looks else set()
        later |= set() if by_ssh else {"access.user", "access.known_hosts"}
        later |= {"access.known_hosts"} if learns_keys else set()
        left = [step for step in self.todo if step.key not in later]
        if left:
            raise InvalidConfig(left)


def load_profile(name_or_path: str | Path, check_ids: Bounds | None = None) -> Profile:
    """A profile by file, or by name: of a site in its folder ``profiles``, in ``./profiles``, among those that come with the program.

    ``check_ids``: what limits may be, by the id of the check; None leaves them unjudged. Raises InvalidConfig, ConfigError.
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
    lock, damaged = image_lock.read(file.parent)
    findings = [
        *site.findings,
        *findings,
        *damaged,
        *judge_site(site, profile.model if profile else None, check_ids),
    ]
    problems = [f for f in findings if f.level == "problem"]
    if problems or site.model is None or profile is None or profile.model is None:
        raise InvalidConfig(findings)
    return LoadedSite(
        site=completed(site.model, profile.model),
        profile=effective(profile.model, site.model),
        folder=file.parent.absolute(),
        site_document=site.document,
        profile_document=profile.document,
        todo=tuple(findings),
        lock=lock,
    )


def site_file(folder: str | Path) -> Path:
    """``site.yml`` of a folder. Raises ConfigError where there is none."""
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
            f"make a site: appliance init {shlex.quote(str(path))} --hosts 4 --profile hpc",
        )
    if not has_site:
        raise ConfigError(
            f"{path} holds no {SITE_FILE}",
            f"make one: appliance init {shlex.quote(str(path))} --hosts 4 --profile hpc",
        )
    return file


def find_profile(name_or_path: str | Path, site: Path | None = None) -> Path:
    """The file of a profile, by name first in the folder ``profiles`` of a site that names it.

    Raises ConfigError, naming the profiles there are, and where they were looked for.
    """
    text = str(name_or_path)
    if "/" in text or text.endswith((".yml", ".yaml")):
        return Path(text)
    for file in _offered(site):
        if file.stem == text:
            return file
    places = " and ".join(str(folder.absolute()) for folder in _folders(site))
    raise ConfigError(
        f'no profile is called "{printable(text)}"',
        f"there are {', '.join(profile_names(site))} (in {places}, and with the program), or give a file",
    )


def profile_names(site: Path | None = None) -> tuple[str, ...]:
    """Names ``find_profile`` knows here."""
    return tuple(sorted({file.stem for file in _offered(site)}))


def _folders(site: Path | None) -> tuple[Path, ...]:
    """Where profiles of one's own are: beside the site, and here, which is told in full where that is another folder."""
    here = Path("profiles")
    if site is None or os.path.realpath(site) == os.path.realpath(Path()):
        return (here,)
    return (site / here, here.absolute())


def _offered(site: Path | None) -> tuple[Path, ...]:
    """Profiles by name, one's own first. A folder that is not there, or cannot be searched, offers none."""
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
            f"{own.absolute()} cannot be read ({error.strerror}), so a profile in it would not be seen",
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
        return _profile(_beside(site.document.file, name, override), check_ids)
    except InvalidConfig as error:
        return None, [_told_of(site, path, f, override) for f in error.findings]
    except ConfigError as error:
        if override is not None:
            raise
        return None, [site.finding(path, error.message, error.hint)]


def _told_of(
    site: Checked[Site], path: KeyPath, finding: Finding, override: str | Path | None
) -> Finding:
    """A file that cannot be read at all is a mistake of the line that names it."""
    if override is not None or finding.line:
        return finding
    return site.finding(path, f"{finding.file} {finding.message}", finding.remedy)


def _beside(site_file: Path, name: str | Path, override: str | Path | None) -> Path:
    """A path in the site is relative to the site's folder, one on the command line to the caller's."""
    if override is None and "/" in str(name):
        return site_file.parent / name
    return find_profile(name, site_file.parent)
