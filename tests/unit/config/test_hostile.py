"""300 hostile sites and profiles: each is refused with file, line and key, or what is made of it is harmless.

One text, name, number or value of a sound and full document is replaced. APPLIANCE_HOSTILE=N tries N of them, and
APPLIANCE_HOSTILE_SEED another choice. What the oracle does not see: what a value means (a wrong but sound address).
"""

import copy
import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from appliance.actions.profiles.limit_bounds import check_ids
from appliance.config.document import read
from appliance.config.finding import InvalidConfig, dotted, render
from appliance.config.load import LoadedSite, load_profile, load_site, profile_names
from appliance.config.new_secrets import CLUSTER_KEY
from appliance.config.secrets import MAIL_PASSWORD, Secret
from appliance.errors import ApplianceError
from appliance.stages.catalog import STAGES
from appliance.stages.context import RoleContext
from tests.support.facts import facts_of
from tests.support.full_sites import VARIABLE, write_full_site
from tests.support.rendering import Rendered, rendered

COUNT = int(os.environ.get("APPLIANCE_HOSTILE", "300"))
SEED = int(os.environ.get("APPLIANCE_HOSTILE_SEED", "20261123"))
SHELL = [
    "$(id)",
    "${IFS}",
    "`id`",
    ";id",
    "|id",
    "&& id",
    ">x",
    "<x",
    "*",
    "?",
    "!",
    "\\",
    "'",
    '"',
]
TEMPLATES = ["{{ lookup('pipe', 'id') }}", "{% raw", "{#", "{{laptop}}", "%s", "%%", "%n"]
LINES = [
    "\n",
    "\nx y",
    "\r\n",
    "\t",
    "\0",
    "\x1b[2J",
    "\x85",
    "\u2028",
    "\u202e",
    "\u200b",
    "\ufeff",
]
NAMES = ["../", "/../x", "./", "//", "-x", " -o x", " ", "#", ":", "=", ",", "[a-b]", "@", "~"]
SCRIPTS = ["\uff41", "\u0661", "\u0131", "e\u0301", "\U0001f600"]
WORDS = [
    "",
    "default",
    "ALL",
    "none",
    "null",
    "yes",
    "0",
    "-1",
    "1e999",
    "nan",
    "!!python/object:x",
    "&a",
    "*a",
]
LONG = ["a" * 300, "a" * 100_000, "a-" * 20_000, "1." * 20_000, "/a" * 10_000, "3g.40gb," * 5_000]
PAYLOADS = (*SHELL, *TEMPLATES, *LINES, *NAMES, *SCRIPTS, *WORDS, *LONG)
VALUES: tuple[object, ...] = (
    None,
    True,
    False,
    [],
    {},
    [None],
    {"a": None},
    ["a", "a"],
    -1,
    0,
    1,
    10**17,
    -(10**17),
    0.1,
    -0.0,
    1e300,
    "x",
)
"""In place of a value of any type."""
DANGEROUS = (
    "{{",
    "{%",
    "{#",
    "$(",
    "${",
    "`",
    ";",
    "|",
    "&",
    ">",
    "<",
    "\\",
    "'",
    '"',
    "*",
    "?",
    "!",
    "#",
    "..",
    "%",
    "\t",
    "~",
)
ESCAPED = re.compile(r"\\+x2d")
"""A dash, as systemd writes it in the name of a mount's unit; a list in JSON doubles the backslash."""
QUOTED, QUOTED_TOO = ("workloads", "jupyter", "config"), ("{{", "{%", "{#")
"""Settings of JupyterHub are texts of JSON to Helm: any character may stand in one, but no template's marks."""
KINDS = ("infiniband", "ethernet", *profile_names())


@dataclass(frozen=True)
class Case:
    """Where in which document, and what stands there. ``text``: a text in place of a text."""

    kind: str
    path: tuple[str | int, ...]
    value: Any
    renamed: str | None = None
    text: bool = False


Made = tuple[dict[str, Any], dict[str, Rendered]]
"""All role variables by "stage host", and the files made of them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    here = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "x" * 20)
        for kind in KINDS[:2]:
            (here / kind).mkdir()
            write_full_site(here / kind, kind)
        yield here


def document(folder: Path, kind: str) -> Path:
    return folder / kind / "site.yml" if kind in KINDS[:2] else Path("profiles") / f"{kind}.yml"


def leaves(
    data: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value of a document that holds no other, and every mapping and list as well."""
    if path:
        yield path, data
    inner = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for key, value in inner:
        yield from leaves(value, (*path, key))


def some_cases(folder: Path, count: int, seed: int) -> Iterator[Case]:
    """The same ones for the same seed; each value of each document is as likely as any other."""
    chance = random.Random(seed)
    places = {kind: list(leaves(read(document(folder, kind)).data)) for kind in KINDS}
    for _ in range(count):
        kind = chance.choice(KINDS)
        path, value = chance.choice(places[kind])
        payload, way = chance.choice(PAYLOADS), chance.random()
        if way < 0.15:
            yield Case(kind, path, chance.choice(VALUES))
        elif way < 0.35 and isinstance(path[-1], str):
            yield Case(kind, path, value, renamed=path[-1] + payload)
        elif isinstance(value, str):
            at = chance.choice((0, len(value) // 2, len(value)))
            text = payload if chance.random() < 0.2 else value[:at] + payload + value[at:]
            yield Case(kind, path, text, text=True)
        else:
            yield Case(kind, path, payload)


def write(folder: Path, case: Case, data: Any) -> Path:
    """The document with the case in it, beside the sound one."""
    data = copy.deepcopy(data)
    place = data
    for part in case.path[:-1]:
        place = place[part]
    if case.renamed is not None:
        del place[case.path[-1]]
        place[case.renamed] = case.value
    else:
        place[case.path[-1]] = case.value
    file = folder / (case.kind if case.kind in KINDS[:2] else KINDS[0]) / "hostile.yml"
    file.write_text(json.dumps(data, indent=0))
    return file


def load(folder: Path, case: Case, file: Path) -> LoadedSite:
    """As plan and profile validate do."""
    if case.kind in KINDS[:2]:
        return load_site(file, check_ids=check_ids())
    load_profile(file, check_ids())
    kind = "infiniband" if case.kind in ("hpc", "dgx-a100") else "ethernet"
    return load_site(folder / kind, file, check_ids=check_ids())


def made(loaded: LoadedSite) -> Made:
    """What the hosts would be given."""
    site = loaded.site
    secrets = {name: Secret("k" * 43 + "=") for name in (*site.secrets, CLUSTER_KEY, MAIL_PASSWORD)}
    told = site.observe.receivers
    secrets |= {f"receiver.{one.name}": Secret("https://hooks.example.com/T0") for one in told}
    seen = {host.name: facts(host.name) for host in site.hosts}
    variables: dict[str, Any] = {}
    files: dict[str, Rendered] = {}
    # One host of each set of roles and owner: others differ in name and address.
    alike = {(host.roles, site.owner(host)): host for host in reversed(site.hosts)}
    for stage in STAGES:
        for host in alike.values():
            if stage.concerns(site, host):
                context = RoleContext(loaded.profile, site, host, secrets, seen)
                given = stage.variables(context)
                where = f"{stage.name} {site.hosts.index(host)}"
                variables[where] = json.loads(json.dumps(given, default=str))
                files[where] = rendered(stage.ansible_roles, host.name, given)
    return variables, files


@cache
def facts(name: str) -> Any:
    device = {"index": 0, "uuid": "u", "name": "NVIDIA H100", "bus_id": "b", "memory": 1}
    return facts_of(name, gpus={"driver": "580", "nvml": "12", "devices": [device]})


def texts(value: Any) -> Iterator[str]:
    """Every text, keys as well."""
    if isinstance(value, str):
        yield value
    for inner in (
        value if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    ):
        yield from texts(list(inner) if isinstance(inner, tuple) else inner)


def tokens(made: Made) -> Counter[str]:
    """How often what is dangerous stands in all that was made."""
    variables, files = made
    found: Counter[str] = Counter()
    for text in (*texts(variables), *(text for of in files.values() for text in of.values())):
        plain = ESCAPED.sub("-", text)
        found.update({token: n for token in DANGEROUS if (n := plain.count(token))})
        found["hidden"] += sum(not c.isprintable() and c not in "\n\t" for c in text)
        found["not ASCII"] += not text.isascii()
    return found


def lines(made: Made) -> dict[str, int]:
    return {f"{w} {n}": text.count("\n") for w, of in made[1].items() for n, text in of.items()}


def harm(sound: Made, now: Made, watched: tuple[str, ...]) -> str:
    """What a text added to what is made of a site besides itself; empty where it added nothing."""
    more = tokens(now) - tokens(sound)
    more = Counter(
        {t: n for t, n in more.items() if t in (*watched, "hidden") or watched is DANGEROUS}
    )
    if more:
        return f"{dict(more)} more than in the sound one"
    changed = {n for n, count in lines(now).items() if lines(sound).get(n, count) != count}
    return f"another number of lines in {', '.join(sorted(changed))}" if changed else ""


def refusal(error: InvalidConfig) -> str:
    """What is wrong with a refusal; empty where it says file, line and key, a finding a line."""
    shown = render(error.findings)
    if len(shown.splitlines()) != len(error.findings) + len({f.file for f in error.findings}):
        return "a finding is not one line"
    if not all(c.isprintable() or c == "\n" for c in shown):
        return "it moves the cursor"
    # A text that is no YAML has a line and no key.
    placed = (f.key or f.message.startswith("is not valid YAML") for f in error.findings if f.line)
    if not any(placed):
        return "it names no line and key"
    if any(len(f.message) > 1000 or not f.remedy for f in error.findings):
        return "a finding is long, or has no remedy"
    return ""


def verdict(folder: Path, case: Case, data: Any, sound: Made) -> str:
    file = write(folder, case, data)
    try:
        loaded = load(folder, case, file)
    except InvalidConfig as error:
        return refusal(error)
    try:
        now = made(loaded)
    except ApplianceError as error:
        return f"it loads, and then: {error.message}"
    # What follows a public key is a remark, which no program reads.
    quoted = case.path[: len(QUOTED)] == QUOTED or "keys" in case.path
    return harm(sound, now, QUOTED_TOO if quoted else DANGEROUS) if case.text else _bare(now)


def _bare(now: Made) -> str:
    """Of a value of another type: nothing hidden came with it."""
    return "hidden characters" if tokens(now)["hidden"] else ""


def test_hostile_sites_and_profiles_are_refused_or_harmless(folder: Path) -> None:
    data = {kind: read(document(folder, kind)).data for kind in KINDS}
    sound: Mapping[str, Made] = {
        kind: made(load(folder, Case(kind, (), None), document(folder, kind))) for kind in KINDS
    }
    wrong = [
        f"{case.kind} {dotted(case.path)} {(case.renamed or repr(case.value))[:60]!r}: {why}"
        for case in some_cases(folder, COUNT, SEED)
        if (why := verdict(folder, case, data[case.kind], sound[case.kind]))
    ]
    also = "a new key draws other cases, so one may be older than your change"
    assert not wrong, "\n".join([*wrong, also])


def test_a_dash_in_the_name_of_a_mounts_unit_is_harmless(folder: Path) -> None:
    kind = "infiniband"
    sound = made(load(folder, Case(kind, (), None), document(folder, kind)))
    case = Case(kind, ("storage", "scratch", "at"), "/lo-cal", text=True)
    assert verdict(folder, case, read(document(folder, kind)).data, sound) == ""


def test_the_full_sites_are_sound(folder: Path) -> None:
    for kind in KINDS:
        files = made(load(folder, Case(kind, (), None), document(folder, kind)))[1]
        assert sum(len(of) for of in files.values()) > 40
