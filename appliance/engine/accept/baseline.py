"""The site as accepted, stored in its journal, and the differences of the hosts' last answers from it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.engine.accept.deployment_state import declared_digests
from appliance.engine.look.fact_history import last_facts, silent_since
from appliance.engine.look.posture import HANDOVER
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.models.handover import Baseline, Difference
from appliance.models.run import HostRecord, RunRecord, host_record, host_versions

SECRETS = "secrets"
"""Changed by every hand-over, so not a difference of the site."""


def baseline_of(session: Session, record: RunRecord) -> Baseline:
    """Return what is handed over: inventory, versions, declaration, and every value of this run."""
    kept = {key: digest for key, digest in declared_digests(session).items() if key != SECRETS}
    return baseline_of_record(record).model_copy(update={"declared": kept})


def keep_baseline(
    session: Session, baseline: Baseline, archive: str, sha256: str, signer: str
) -> None:
    """Store the hand-over in the site's journal; models/handover.py describes the format."""
    session.journal.append(
        session.run,
        HANDOVER,
        baseline=baseline.model_dump(mode="json"),
        archive=archive,
        sha256=sha256,
        signer=signer,
    )


def handed_over_baseline(session: Session) -> Baseline | None:
    """Return the site as last accepted; None if no hand-over is recorded."""
    entry = session.journal.last(HANDOVER)
    return Baseline.model_validate(entry.data["baseline"]) if entry else None


def baseline_of_record(record: RunRecord) -> Baseline:
    """Return the site as the report of a run shows it. The report lacks the declaration, so that is not compared."""
    return Baseline(
        site=record.site,
        profile=record.profile,
        run=record.run,
        accepted=record.finished,
        appliance=record.appliance,
        hosts=record.hosts,
        versions=record.versions,
        declared={},
        results=record.results,
    )


def differences(
    session: Session, then: Baseline, answered: Mapping[str, HostFacts] | None = None
) -> list[Difference]:
    """Yield the differences of the site's declaration and of its hosts. ``answered``: their facts; None: their last ones."""
    if (then.site, then.profile) != (session.site.name, session.profile.name):
        was = f"{then.site} with profile {then.profile}"
        return [
            _changed("", "site", was, f"{session.site.name} with profile {session.profile.name}")
        ]
    found = list(_declared(session, then))
    before = {host.name: host for host in then.hosts}
    current = {host.name for host in session.site.hosts}
    found += [
        Difference(host=name, what="host", then="of the site")
        for name in before
        if name not in current
    ]
    for host in session.site.hosts:
        facts = answered.get(host.name) if answered is not None else last_facts(session, host.name)
        gone = silent_since(session, host.name) if answered is None else ""
        built = before.get(host.name)
        if built is None:
            found.append(Difference(host=host.name, what="host", now="of the site"))
        elif facts is None:
            found.append(_unknown(host.name, "its current state is unknown; run appliance health"))
        elif gone:
            found.append(_unknown(host.name, f"the host did not answer the last run: {gone}"))
        elif built.unreachable:
            found.append(_unknown(host.name, f"its earlier state is unknown: {built.unreachable}"))
        else:
            found += _of_host(built, host_record(host, facts), facts)
            found += _of_versions(host.name, then.versions.get(host.name, {}), host_versions(facts))
    return found


def _changed(host: str, what: str, then: Any, now: Any) -> Difference:
    return Difference(host=host, what=what, then=_value_text(then), now=_value_text(now))


def _unknown(host: str, why: str) -> Difference:
    return Difference(host=host, what=why, known=False)


def _declared(session: Session, then: Baseline) -> Iterator[Difference]:
    """Compare digests, which show that a section changed, but not what in it."""
    if not then.declared:
        return
    now = {key: digest for key, digest in declared_digests(session).items() if key != SECRETS}
    for key in sorted(now.keys() | then.declared.keys()):
        if now.get(key) != then.declared.get(key):
            yield Difference(what=key)


def _of_host(then: HostRecord, now: HostRecord, facts: HostFacts) -> Iterator[Difference]:
    for field in ("roles", "address", "os", "kernel", "cpu", "memory"):
        if (was := getattr(then, field)) != (is_now := getattr(now, field)):
            yield _changed(now.name, field, was, is_now)
    if then.gpus and facts.gpus is None:
        yield _unknown(
            now.name, f"its GPUs are unknown: {facts.gap('gpus', 'no driver answers').text}"
        )
    else:
        yield from _parts(now.name, _gpus(then), _gpus(now))
    if then.ports and not facts.ports and "ports" in facts.errors:
        yield _unknown(now.name, f"its ports are unknown: {facts.gap('ports').text}")
    else:
        yield from _parts(now.name, _ports(then), _ports(now))


def _value_text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value) or "unknown"


@dataclass(frozen=True)
class HardwarePart:
    """A part of a host by its usual name, and its identity."""

    name: str
    fields: dict[str, str]


def _gpus(host: HostRecord) -> dict[str, HardwarePart]:
    """Compare by slot: if a part is lost, the driver renumbers the others."""
    fields = {"name", "uuid", "serial", "vbios", "driver"}
    return {
        gpu.bus_id or str(gpu.index): HardwarePart(
            f"GPU {gpu.index}", gpu.model_dump(include=fields)
        )
        for gpu in host.gpus
    }


def _ports(host: HostRecord) -> dict[str, HardwarePart]:
    return {
        f"{p.device}/{p.port}": HardwarePart(
            f"port {p.device}/{p.port}",
            {
                "board": p.board,
                "GUID": p.guid,
                "firmware": p.firmware,
                "rate": f"{p.rate:g} Gb/s",
            },
        )
        for p in host.ports
    }


def _parts(
    host: str, then: Mapping[str, HardwarePart], now: Mapping[str, HardwarePart]
) -> Iterator[Difference]:
    for place in [*then, *(place for place in now if place not in then)]:
        was, is_now = then.get(place), now.get(place)
        if was and is_now:
            for field, value in was.fields.items():
                if value != is_now.fields[field]:
                    yield _changed(host, f"{was.name} {field}", value, is_now.fields[field])
        elif was:
            yield Difference(host=host, what=was.name, then=_whole(was))
        elif is_now:
            yield Difference(host=host, what=is_now.name, now=_whole(is_now))


def _whole(part: HardwarePart) -> str:
    return ", ".join(filter(None, part.fields.values()))


def _of_versions(
    host: str, then: Mapping[str, str], now: Mapping[str, str]
) -> Iterator[Difference]:
    """Compare what stages left. System and driver are reported with the host and its GPUs."""
    for name in sorted((then.keys() | now.keys()) - {"os", "kernel", "gpu driver"}):
        if then.get(name) != now.get(name):
            yield Difference(host=host, what=name, then=then.get(name, ""), now=now.get(name, ""))
