"""Images of the site's cluster: what runs, what was accepted, and the lock that holds the one to the other."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from appliance.actions.opening import Target, open_session
from appliance.config import image_lock
from appliance.engine.survey import survey, view_of
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Observer
from appliance.models.images import Held, ImageLock, RunningImage, is_pinned
from appliance.models.site import Role
from appliance.stages.kubernetes.checks.images import running
from appliance.text import plural


@dataclass(frozen=True)
class Seen:
    """What runs in the appliance's own namespaces of a site's cluster; ``lock``: what was accepted, None where nothing was."""

    site: str
    folder: Path
    images: tuple[RunningImage, ...]
    lock: ImageLock | None

    @property
    def file(self) -> Path:
        """Of the lock."""
        return self.folder / image_lock.NAME

    @property
    def torn(self) -> tuple[str, ...]:
        """Images that are not the same everywhere, or of which nobody can say so."""
        named = groupby(self.images, lambda one: one.image)
        return tuple(
            image
            for image, rows in ((name, tuple(found)) for name, found in named)
            if not is_pinned(image) and (len(rows) > 1 or not rows[0].identity)
        )

    @property
    def good(self) -> bool:
        """Nothing differs between hosts or from what was accepted."""
        bad = {Held.DIFFERS, Held.UNKNOWN}
        return not self.torn and not any(one.held in bad for one in self.images)


@dataclass(frozen=True)
class Change:
    """One line of the lock. ``before`` "": it is new; ``after`` "": it does not run any more."""

    image: str
    before: str
    after: str


def look(target: Target, observer: Observer) -> Seen:
    """Asks a control host what runs. Raises ConfigError without a cluster of the site's own, ApplianceError without an answer."""
    with open_session(target, "images", observer, only_looks=True) as session:
        site = session.site
        if site.kubernetes is None or site.external_cluster:
            what = (
                "the cluster is somebody else's" if site.external_cluster else "it has no cluster"
            )
            raise ConfigError(
                f"images of site {site.name} are not the appliance's: {what}",
                "describe one under kubernetes",
            )
        found = survey(session, [host.name for host in site.with_role(Role.CONTROL)])
        host, images, why = running(view_of(session, found))
        if not images:
            if not found.facts:
                first = next(iter(found.unanswered.values()))
                raise ApplianceError(first.cause, first.fix, first.host)
            raise ApplianceError(why.text, "appliance health --check kubernetes", host)
        return Seen(site.name, session.folder, images, session.lock)


def wanted(seen: Seen) -> dict[str, str]:
    """What the lock is to hold: all that runs and is not held by its name. Raises ApplianceError where that is not one image each."""
    if seen.torn:
        raise ApplianceError(
            f"{plural(len(seen.torn), 'image')} not known to be the same everywhere, as {seen.torn[0]}",
            "appliance health --check kubernetes.images names hosts and remedy; then lock them",
        )
    return {one.image: one.identity for one in seen.images if not is_pinned(one.image)}


def changes(seen: Seen, images: dict[str, str]) -> tuple[Change, ...]:
    """What the lock would change."""
    return tuple(_changes(dict(seen.lock.images) if seen.lock else {}, images))


def _changes(before: dict[str, str], after: dict[str, str]) -> Iterator[Change]:
    for image in sorted({*before, *after}):
        old, new = before.get(image, ""), after.get(image, "")
        if old != new:
            yield Change(image, old, new)


def lock(seen: Seen, images: dict[str, str]) -> Path:
    """Writes the lock. Raises ConfigError where the site's folder cannot be written."""
    return image_lock.write(seen.folder, images)
