"""The site as it was accepted, kept in its record, and what differs from that by the hosts' last answers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.engine.deployed import declared
from appliance.engine.earlier import last_facts, silent_since
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.models.handover import Baseline, Difference
from appliance.models.run import HostRecord, RunRecord, host_record, host_versions

HANDOVER = "handover"
SECRETS = "secrets"
"""Changed by whoever takes a site over: no difference of the site."""


def baseline_of(session: Session, record: RunRecord) -> Baseline:
    """What is handed over: inventory, versions, what is declared, and every value of this run."""
    kept = {key: digest for key, digest in declared(session).items() if key != SECRETS}
    return of_record(record).model_copy(update={"declared": kept})


def keep_baseline(
    session: Session, baseline: Baseline, archive: str, sha256: str, signer: str
) -> None:
    """Enters the hand-over into the site's record; models/handover.py says in which form."""
    session.journal.append(
        session.run,
        HANDOVER,
        baseline=baseline.model_dump(mode="json"),
        archive=archive,
        sha256=sha256,
        signer=signer,
    )


def handed_over(session: Session) -> Baseline | None:
    """The site as it was accepted last; None where no hand-over is recorded."""
    entry = session.journal.last(HANDOVER)
    return Baseline.model_validate(entry.data["baseline"]) if entry else None


def of_record(record: RunRecord) -> Baseline:
    """The site as the report of a run has it. What was declared then it does not say, so that is not compared."""
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
    """What is another at the site, by its declaration and by its hosts. ``answered``: their facts; None: their last ones."""
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
            found.append(_unknown(host.name, "what it is now is not known: appliance health"))
        elif gone:
            found.append(_unknown(host.name, f"it was silent when it was asked last: {gone}"))
        elif built.unreachable:
            found.append(_unknown(host.name, f"what it was then is not known: {built.unreachable}"))
        else:
            found += _of_host(built, host_record(host, facts), facts)
            found += _of_versions(host.name, then.versions.get(host.name, {}), host_versions(facts))
    return found


def _changed(host: str, what: str, then: Any, now: Any) -> Difference:
    return Difference(host=host, what=what, then=_said(then), now=_said(now))


def _unknown(host: str, why: str) -> Difference:
    return Difference(host=host, what=why, known=False)


def _declared(session: Session, then: Baseline) -> Iterator[Difference]:
    """By digests, which tell that a section is another, and not in what."""
    if not then.declared:
        return
    now = {key: digest for key, digest in declared(session).items() if key != SECRETS}
    for key in sorted(now.keys() | then.declared.keys()):
        if now.get(key) != then.declared.get(key):
            yield Difference(what=key)


def _of_host(then: HostRecord, now: HostRecord, facts: HostFacts) -> Iterator[Difference]:
    for field in ("roles", "address", "os", "kernel", "cpu", "memory"):
        if (was := getattr(then, field)) != (is_now := getattr(now, field)):
            yield _changed(now.name, field, was, is_now)
    if then.gpus and facts.gpus is None:
        yield _unknown(
            now.name, f"its GPUs are not known: {facts.gap('gpus', 'no driver answers').text}"
        )
    else:
        yield from _parts(now.name, _gpus(then), _gpus(now))
    if then.ports and not facts.ports and "ports" in facts.errors:
        yield _unknown(now.name, f"its ports are not known: {facts.gap('ports').text}")
    else:
        yield from _parts(now.name, _ports(then), _ports(now))


def _said(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value) or "unknown"


@dataclass(frozen=True)
class Part:
    """A part of a host by the name people know it by, and what it is."""

    name: str
    fields: dict[str, str]


def _gpus(host: HostRecord) -> dict[str, Part]:
    """By where they sit: where one is lost the driver numbers the rest anew."""
    fields = {"name", "uuid", "serial", "vbios", "driver"}
    return {
        gpu.bus_id or str(gpu.index): Part(f"GPU {gpu.index}", gpu.model_dump(include=fields))
        for gpu in host.gpus
    }


def _ports(host: HostRecord) -> dict[str, Part]:
    return {
        f"{p.device}/{p.port}": Part(
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


def _parts(host: str, then: Mapping[str, Part], now: Mapping[str, Part]) -> Iterator[Difference]:
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


def _whole(part: Part) -> str:
    return ", ".join(filter(None, part.fields.values()))


def _of_versions(
    host: str, then: Mapping[str, str], now: Mapping[str, str]
) -> Iterator[Difference]:
    """Of what stages left; system and driver are told beside the host and its GPUs."""
    for name in sorted((then.keys() | now.keys()) - {"os", "kernel", "gpu driver"}):
        if then.get(name) != now.get(name):
            yield Difference(host=host, what=name, then=then.get(name, ""), now=now.get(name, ""))
