"""Images of the site's cluster: what runs, what was accepted, and the lock that pins it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from appliance.actions.sites.opening import Target, open_session
from appliance.config import image_lock
from appliance.engine.look.survey import survey, view_of
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Observer
from appliance.models.images import Held, ImageLock, RunningImage, is_pinned
from appliance.models.site import Role
from appliance.stages.kubernetes.checks.images import running
from appliance.text import plural


@dataclass(frozen=True)
class ImagesFound:
    """What runs in the appliance's own namespaces of a site's cluster; ``lock``: the accepted images, None without a lock."""

    site: str
    folder: Path
    images: tuple[RunningImage, ...]
    lock: ImageLock | None

    @property
    def file(self) -> Path:
        """The path of the lock."""
        return self.folder / image_lock.NAME

    @property
    def torn(self) -> tuple[str, ...]:
        """Images that differ between hosts, or whose identity is unknown."""
        named = groupby(self.images, lambda one: one.image)
        return tuple(
            image
            for image, rows in ((name, tuple(found)) for name, found in named)
            if not is_pinned(image) and (len(rows) > 1 or not rows[0].identity)
        )

    @property
    def good(self) -> bool:
        """Nothing differs between hosts or from the lock."""
        bad = {Held.DIFFERS, Held.UNKNOWN}
        return not self.torn and not any(one.held in bad for one in self.images)


@dataclass(frozen=True)
class LockChange:
    """One line of the lock. ``before`` "": it is new; ``after`` "": it no longer runs."""

    image: str
    before: str
    after: str


def look(target: Target, observer: Observer) -> ImagesFound:
    """Reads from a control host what runs. Raises ConfigError without a cluster of the site's own, ApplianceError without an answer."""
    with open_session(target, "images", observer, only_looks=True) as session:
        site = session.site
        if site.kubernetes is None or site.external_cluster:
            what = "the cluster is external" if site.external_cluster else "it has no cluster"
            raise ConfigError(
                f"images of site {site.name} are not managed by this program: {what}",
                "add a section kubernetes to site.yml",
            )
        found = survey(session, [host.name for host in site.with_role(Role.CONTROL)])
        host, images, why = running(view_of(session, found))
        if not images:
            if not found.facts:
                first = next(iter(found.unanswered.values()))
                raise ApplianceError(first.cause, first.fix, first.host)
            raise ApplianceError(why.text, "appliance health --check kubernetes", host)
        return ImagesFound(site.name, session.folder, images, session.lock)


def lock_content(seen: ImagesFound) -> dict[str, str]:
    """The new lock: every running image that is not pinned by its name. Raises ApplianceError if one differs between hosts."""
    if seen.torn:
        raise ApplianceError(
            f"{plural(len(seen.torn), 'image')} not known to be the same on all hosts, such as {seen.torn[0]}",
            "appliance health --check kubernetes.images shows hosts and remedy; then lock them",
        )
    return {one.image: one.identity for one in seen.images if not is_pinned(one.image)}


def changes(seen: ImagesFound, images: dict[str, str]) -> tuple[LockChange, ...]:
    """What the lock would change."""
    return tuple(_changes(dict(seen.lock.images) if seen.lock else {}, images))


def _changes(before: dict[str, str], after: dict[str, str]) -> Iterator[LockChange]:
    for image in sorted({*before, *after}):
        old, new = before.get(image, ""), after.get(image, "")
        if old != new:
            yield LockChange(image, old, new)


def lock(seen: ImagesFound, images: dict[str, str]) -> Path:
    """Writes the lock. Raises ConfigError if the site's folder cannot be written."""
    return image_lock.write(seen.folder, images)
