"""Rules for alert receivers and readers: names are unique, mails have a server, readers are not hosts of the site."""

from collections.abc import Iterator

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule, named_twice
from appliance.config.rules.reserved import server

RECEIVERS: KeyPath = ("observe", "receivers")
OPEN_TO: KeyPath = ("observe", "open_to")
MAIL: KeyPath = ("observe", "mail")


def receivers(case: Case) -> Iterator[Finding]:
    """Receivers have unique names."""
    given = case.site.observe.receivers
    names: list[tuple[KeyPath, str]] = [
        ((*RECEIVERS, i, "name"), receiver.name) for i, receiver in enumerate(given)
    ]
    yield from named_twice(case, "receiver", names)


def mail(case: Case) -> Iterator[Finding]:
    """Receivers of mail need a server, and a server needs receivers of mail."""
    own = case.site.observe
    if own.mail is not None:
        yield from server(case, (*MAIL, "server"), own.mail.server)
    mailed = [i for i, receiver in enumerate(own.receivers) if receiver.email is not None]
    if mailed and own.mail is None and case.checked.whole("observe"):
        remedy = "add observe: {mail: {server: mail.example.com, sender: appliance@example.com}}"
        yield case.problem((*RECEIVERS, mailed[0], "email"), "needs a mail server", remedy)
    elif own.mail is not None and not mailed and case.checked.whole("observe"):
        yield case.problem(
            MAIL, "is not used by any receiver", "give a receiver an email, or remove this section"
        )


def open_to(case: Case) -> Iterator[Finding]:
    """Hosts with users of the site must not read metrics: readers are other machines."""
    for i, network in enumerate(case.site.observe.open_to):
        inside = (
            host
            for host in case.site.hosts
            if any(address in network for address in (host.address, *host.addresses.values()))
        )
        if host := next(inside, None):
            problem = f"gives access to host {host.name} of this site, and so to all of its users"
            remedy = "name only the addresses of the other machines, such as 10.0.9.5/32"
            yield case.problem((*OPEN_TO, i), problem, remedy)


RULES: tuple[Rule, ...] = (receivers, mail, open_to)
