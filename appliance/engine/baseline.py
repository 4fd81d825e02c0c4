"""The site as it was accepted, kept in its record, and what differs from that by the hosts' last answers."""

from collections.abc import Iterator, Mapping

from appliance.engine.deployed import declared
from appliance.engine.earlier import last_facts
from appliance.engine.session import Session
from appliance.models.handover import Baseline
from appliance.models.run import HostRecord, RunRecord, host_record, host_versions

HANDOVER = "handover"
SECRETS = "secrets"
"""Changed by whoever takes a site over: no difference of the site."""
COUNTED = 8


def baseline_of(session: Session, record: RunRecord) -> Baseline:
    """What is handed over: inventory, versions, what is declared, and every value of this run."""
    return Baseline(
        site=record.site,
        profile=record.profile,
        run=record.run,
        accepted=record.finished,
        appliance=record.appliance,
        hosts=record.hosts,
        versions=record.versions,
        declared={key: digest for key, digest in declared(session).items() if key != SECRETS},
        results=record.results,
    )


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


def differences(session: Session, then: Baseline) -> list[str]:
    """What is another at the site now, by its declaration and by what its hosts answered last, one line each."""
    if (then.site, then.profile) != (session.site.name, session.profile.name):
        now = f"site {session.site.name} with profile {session.profile.name}"
        return [f"it is of site {then.site} with profile {then.profile}, this is {now}"]
    known = {host.name: last_facts(session, host.name) for host in session.site.hosts}
    found = list(_declared(session, then))
    before = {host.name: host for host in then.hosts}
    found += [f"{name}: no host of the site any more" for name in before if name not in known]
    for host in session.site.hosts:
        facts = known[host.name]
        if host.name not in before:
            found.append(f"{host.name}: new since")
        elif facts is None:
            found.append(f"{host.name}: what it is now is not known: appliance health")
        else:
            found += _of_host(before[host.name], host_record(host, facts))
            versions = then.versions.get(host.name, {})
            found += _of_versions(host.name, versions, host_versions(facts))
    return found


def _declared(session: Session, then: Baseline) -> Iterator[str]:
    now = {key: digest for key, digest in declared(session).items() if key != SECRETS}
    for key in sorted(now.keys() | then.declared.keys()):
        if now.get(key) != then.declared.get(key):
            yield f"{key} has changed"


def _of_host(then: HostRecord, now: HostRecord) -> Iterator[str]:
    for field in ("roles", "address", "os", "kernel", "cpu", "memory"):
        if (was := getattr(then, field)) != (is_now := getattr(now, field)):
            yield f"{now.name}: {field} {_said(was)} then, {_said(is_now)} now"
    yield from _parts(now.name, "GPU", _gpus(then), _gpus(now))
    yield from _parts(now.name, "port", _ports(then), _ports(now))


def _said(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value) or "unknown"


def _gpus(host: HostRecord) -> dict[str, tuple[str, ...]]:
    return {str(g.index): (g.name, g.uuid, g.serial, g.vbios, g.driver) for g in host.gpus}


def _ports(host: HostRecord) -> dict[str, tuple[str, ...]]:
    return {
        f"{p.device}/{p.port}": (p.board, p.guid, p.firmware, f"{p.rate:g} Gb/s")
        for p in host.ports
    }


def _parts(
    host: str, what: str, then: Mapping[str, tuple[str, ...]], now: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    for name in [*then, *(n for n in now if n not in then)]:
        was, is_now = then.get(name), now.get(name)
        if was is None or is_now is None:
            yield f"{host}: {what} {name} {'is gone' if is_now is None else 'is new'}"
        elif was != is_now:
            pairs = [
                f"{a or 'unknown'} then, {b or 'unknown'} now"
                for a, b in zip(was, is_now, strict=True)
                if a != b
            ]
            yield f"{host}: {what} {name}: {'; '.join(pairs)}"


def _of_versions(host: str, then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(then.keys() | now.keys()):
        if name in {"os", "kernel", "gpu driver"}:
            continue
        if then.get(name) != now.get(name):
            yield f"{host}: {name} {then.get(name, 'absent')} then, {now.get(name, 'absent')} now"
