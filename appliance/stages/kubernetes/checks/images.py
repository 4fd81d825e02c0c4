"""Checks images by the running digests, because a tag can name another image at any time and on any mirror."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from appliance.checks.causes import UNASKED
from appliance.checks.check import Check, ClusterCheck, View, failed, not_assessed, passed, warned
from appliance.models.gap import Gap
from appliance.models.images import (
    Held,
    RunningImage,
    full,
    identity_of,
    is_pinned,
    kind,
    short,
)
from appliance.models.result import Judgement, Place, place
from appliance.stages.kubernetes import ids
from appliance.stages.kubernetes.causes import NO_API
from appliance.stages.kubernetes.checks import gpus
from appliance.stages.scheduler import checks as scheduler
from appliance.stages.workloads import checks as workloads
from appliance.text import plural

SYSTEM = "kube-system"
LOCK = "appliance images lock"
GOOD = "one digest each"


def running(view: View) -> tuple[str, tuple[RunningImage, ...] | None, Gap]:
    """Return the control plane with the images of the appliance's namespaces, or the reason why they are unknown."""
    host, known, _ = scheduler.scheduler_facts(view)
    if known is None or known.images is None:
        return host, None, scheduler.missing(view, "images of pods")
    releases = (*gpus.wanted(view), *scheduler.wanted(view), *workloads.wanted(view))
    own = {SYSTEM, *(release.namespace for release in releases)}
    order = {known_host.name: i for i, known_host in enumerate(view.site.hosts)}
    found: dict[tuple[str, str], set[str]] = {}
    for one in known.images:
        if one.namespace in own:
            key = full(one.image), identity_of(one.id)
            found.setdefault(key, set()).update(one.hosts)
    return (
        host,
        tuple(
            RunningImage(
                image=image,
                identity=identity,
                hosts=tuple(sorted(hosts, key=lambda name: (order.get(name, len(order)), name))),
                held=_held(view, image, identity),
            )
            for (image, identity), hosts in sorted(found.items())
        ),
        Gap(f"no running pod was found in {SYSTEM}"),
    )


def _held(view: View, image: str, identity: str) -> Held:
    if is_pinned(image):
        return Held.NAME
    if not identity:
        return Held.UNKNOWN
    return view.lock.holds(image, identity) if view.lock else Held.NOTHING


def _images(view: View) -> Iterator[Judgement]:
    host, found, why = running(view)
    if not found:
        yield not_assessed(host, why)
        return
    by_name = {image: tuple(rows) for image, rows in groupby(found, lambda one: one.image)}
    judged = (_judged(view, place(host, image), rows) for image, rows in by_name.items())
    wrong = [result for result in judged if result is not None]
    yield from wrong
    if not wrong:
        evidence = f"{plural(len(by_name), 'image')}{_by_archive(found)}; {_compared(view)}"
        yield passed(host, GOOD, limit=GOOD, evidence=evidence)


def _judged(view: View, target: Place, rows: Sequence[RunningImage]) -> Judgement | None:
    """Return the fault of an image; None if there is none."""
    image = rows[0].image
    if is_pinned(image):
        return None
    for of_kind in ("digest", "id"):
        alike = [row for row in rows if kind(row.identity) == of_kind]
        if len(alike) > 1:
            return _torn(target, alike)
    for row in rows:
        if row.is_wrong and view.lock:
            accepted = short(view.lock.images[image])
            cause = f"{image} is {short(row.identity)} on {_on(row)}, but {accepted} was accepted"
            fix = f"compare it with the publisher's digest; if it is correct: {LOCK}; otherwise crictl rmi {image} there, and delete its pods"
            return failed(target, cause, fix, value=short(row.identity), limit=accepted)
    if len(rows) > 1 or rows[0].held is Held.UNKNOWN:
        return _open(view, target, rows)
    if view.lock and rows[0].held is Held.NOTHING:
        cause = (
            f"{image} runs on {_on(rows[0])} ({short(rows[0].identity)}), but was never accepted"
        )
        fix = f"compare it with the publisher's digest, then {LOCK}"
        found = short(rows[0].identity)
        return warned(target, cause, fix, value=found, limit="images.lock")
    return None


def _torn(target: Place, rows: Sequence[RunningImage]) -> Judgement:
    image, fetched = rows[0].image, kind(rows[0].identity) == "digest"
    said = ", ".join(f"{short(row.identity)} on {_on(row)}" for row in rows)
    cause = f"{image} differs between hosts: {said}"
    fix = "import the same archive on all hosts, and delete its pods"
    if fetched:
        fix = f"skopeo inspect docker://{image} shows the correct digest: crictl rmi {image} on the others, and delete its pods there"
    return failed(target, cause, fix, value=len(rows), limit=1)


def _open(view: View, target: Place, rows: Sequence[RunningImage]) -> Judgement:
    image = rows[0].image
    unknown = next((row for row in rows if not row.identity), None)
    if unknown:
        why = Gap(f"{_on(unknown)} does not report the digest of {image}", unknown.hosts)
        return not_assessed(target, why, fix=f"crictl inspecti {image} there")
    if len(rows) > 1:
        said = " and ".join(f"{_came(row.identity)} on {_on(row)}" for row in rows)
        cause = f"{image} was {said}: they cannot be compared"
        fix = "fetch or import it on all hosts in the same way, and delete its pods"
        return not_assessed(target, cause, fix=fix)
    accepted = _came(view.lock.images[image]) if view.lock else ""
    cause = f"{image} was {_came(rows[0].identity)}, and {accepted} when it was accepted: they cannot be compared"
    return not_assessed(target, cause, fix=f"compare it again, then {LOCK}")


def _came(identity: str) -> str:
    return "fetched by its digest" if kind(identity) == "digest" else "imported from an archive"


def _on(row: RunningImage) -> str:
    first = ", ".join(row.hosts[:4])
    return f"{first} and {len(row.hosts) - 4} more" if len(row.hosts) > 4 else first


def _by_archive(found: Sequence[RunningImage]) -> str:
    count = len({row.image for row in found if kind(row.identity) == "id"})
    return f", {count} of them imported from archives and compared by their IDs" if count else ""


def _compared(view: View) -> str:
    if view.lock:
        return "equal to images.lock"
    return f"compared only between hosts: the site has no images.lock ({LOCK})"


CHECKS: tuple[Check, ...] = (
    ClusterCheck(
        ids.IMAGES,
        "No image differs between hosts, or from what was accepted",
        _images,
        "The images (imageID) of all pods in kube-system and in the namespaces of charts that stages install. They are compared by name "
        "between hosts, and with images.lock next to site.yml if appliance images lock wrote one. A tag can be moved to another image, and "
        "a mirror can have another image with the same name. A running image without a lock entry is a warning. An image imported from an "
        "archive has no registry digest; its ID is compared with others of its kind.",
        "images.lock of the site, and the other hosts",
        causes=(
            UNASKED,
            NO_API,
        ),
    ),
)
