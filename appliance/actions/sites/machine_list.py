"""Machines and cables of a new site, as listed in a file or in another program."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, ValidationError

from appliance.config.finding import Finding, InvalidConfig
from appliance.config.validation_messages import explain
from appliance.models.base import Model
from appliance.models.provision import IDENTITY
from appliance.models.site import UNITS, Mac, RackName, Role
from appliance.models.text_types import BmcUser, Few, HostName, ProfileName
from appliance.report.formatting import fold
from appliance.stages.fabric.site import Cable
from appliance.text import quoted

M = TypeVar("M", bound=Model)
NUMBERS = frozenset({"unit", "port"})
SITE_KEY = re.compile(r"(?P<list>hosts|fabric\.cables)\[(?P<index>[0-9]+)\](\.(?P<key>.*))?")
COLUMNS = {"bmc.address": "bmc", "bmc.user": "bmc_user"}
"""Columns by key of a host, where they differ."""
WANTED = {
    "mac": "MAC address, which provision needs",
    "bmc": "BMC",
    "rack": "rack",
    "unit": "unit",
    "serial": "serial number",
}
"""Columns that may be empty."""


class ListedHost(Model):
    """A machine of a list."""

    name: HostName = Field(description="Host name")
    roles: Few[Role] = Field(min_length=1, description="Roles, separated by blanks")
    address: IPv4Address = Field(description="Address, with or without prefix length")
    hardware_class: ProfileName | None = Field(default=None, alias="class")
    mac: Mac | None = None
    bmc: IPv4Address | None = None
    bmc_user: BmcUser = "admin"
    rack: RackName | None = None
    unit: int | None = Field(default=None, ge=1, le=UNITS)
    serial: Annotated[str, Field(pattern=IDENTITY)] | None = None


@dataclass(frozen=True)
class Row:
    """One machine or cable as text by column. ``line`` in its file, 0: none; ``name``: what messages call it without a line."""

    file: Path
    line: int
    values: Mapping[str, str]
    name: str = ""

    def finding(self, column: str, message: str, remedy: str) -> Finding:
        """A problem of this row."""
        key = f"{self.name}: {column}" if self.name and column else column or self.name
        return Finding(self.file, self.line, key, message, remedy)


@dataclass(frozen=True)
class MachineList:
    """Machines and cables with their rows, the network of their addresses if stated, and what was left out."""

    source: Path
    hosts: tuple[ListedHost, ...]
    host_rows: tuple[Row, ...]
    cables: tuple[Cable, ...] = ()
    cable_rows: tuple[Row, ...] = ()
    network: IPv4Network | None = None
    left_out: tuple[str, ...] = ()

    def missing(self) -> Iterator[str]:
        """What the list does not tell, one line for each kind, with the hosts."""
        for column, what in WANTED.items():
            if lacking := [one.name for one in self.hosts if getattr(one, column) is None]:
                yield f"no {what}: {fold(lacking)}"
        cabled = {one.host for one in self.cables}
        gpu = [h.name for h in self.hosts if Role.GPU in h.roles and h.name not in cabled]
        if gpu:
            yield f"no fabric cable: {fold(gpu)}"
        yield from self.left_out

    def at_rows(self, findings: Sequence[Finding]) -> InvalidConfig:
        """Findings of the site made from this list, as findings of its rows."""
        return InvalidConfig([self._at_row(one) for one in findings if one.level == "problem"])

    def _at_row(self, one: Finding) -> Finding:
        at = SITE_KEY.match(one.key)
        rows = self.cable_rows if at and at["list"] != "hosts" else self.host_rows
        if at is None or int(at["index"]) >= len(rows):
            return Finding(self.source, 0, one.key, one.message, one.remedy)
        # Lines in messages are those of a site.yml that is not written.
        message = re.sub(r" \(also line [0-9]+\)", "", one.message)
        return rows[int(at["index"])].finding(
            COLUMNS.get(at["key"] or "", at["key"] or ""), message, one.remedy
        )


def listed(
    source: Path, hosts: Sequence[Row], cables: Sequence[Row] = (), left_out: Sequence[str] = ()
) -> MachineList:
    """The models of these rows. Raises InvalidConfig with a finding for each unusable value."""
    findings: list[Finding] = []
    networks: dict[IPv4Network, Row] = {}
    found = [one for row in hosts if (one := _made(ListedHost, row, _host, findings))]
    wires = [wire for row in cables if (wire := _made(Cable, row, _plain, findings))]
    for row in hosts:
        address, _, length = row.values.get("address", "").partition("/")
        if not length:
            continue
        try:
            networks.setdefault(IPv4Network(f"{address}/{length}", strict=False), row)
        except ValueError:
            findings.append(
                row.finding(
                    "address", f'"/{length}" is no prefix length', "write it as 10.0.0.11/24"
                )
            )
    if len(networks) > 1:
        first, other = list(networks)[:2]
        findings.append(
            networks[other].finding(
                "address", f"it is in {other}, others in {first}", "list addresses of one network"
            )
        )
    if not hosts:
        findings.append(Finding(source, 0, "", "it lists no hosts", "add one row for each host"))
    if findings:
        raise InvalidConfig(findings)
    network = next(iter(networks), None)
    return MachineList(
        source, tuple(found), tuple(hosts), tuple(wires), tuple(cables), network, tuple(left_out)
    )


def _made(
    model: type[M],
    row: Row,
    read: Callable[[Mapping[str, str]], dict[str, object]],
    findings: list[Finding],
) -> M | None:
    try:
        return model.model_validate(read(row.values))
    except ValidationError as error:
        seen: set[str] = set()
        for one in error.errors():
            column = str(one["loc"][0])
            if column in seen:
                continue
            seen.add(column)
            if one["type"] == "int_parsing":
                said = f"{quoted(one['input'])} is not a whole number", "write digits only"
            else:
                said = explain(model, one["loc"], [one])
            findings.append(row.finding(column, *said))
        return None


def _plain(values: Mapping[str, str]) -> dict[str, object]:
    return {
        column: int(text) if column in NUMBERS and re.fullmatch("[0-9]{1,9}", text) else text
        for column, text in values.items()
        if text
    }


def _host(values: Mapping[str, str]) -> dict[str, object]:
    found = _plain(values)
    if "roles" in found:
        found["roles"] = re.split(r"[\s,;+]+", values["roles"].strip().lower())
    if "address" in found:
        found["address"] = values["address"].partition("/")[0]
    if "bmc" in found:
        found["bmc"] = values["bmc"].partition("/")[0]
    if "mac" in found:
        found["mac"] = _mac(values["mac"])
    return found


def _mac(text: str) -> str:
    """Makers print it with "-", in upper case, or in three groups."""
    digits = re.sub("[-:.]", "", text.lower())
    if not re.fullmatch("[0-9a-f]{12}", digits):
        return text
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2))
