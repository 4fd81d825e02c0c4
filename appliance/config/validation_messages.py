"""Turns pydantic's errors into plain messages, each with a remedy."""

import json
import re
import types
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, ip_interface
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from appliance.config.finding import KeyPath
from appliance.models import images, provision, secret, site, text_types
from appliance.stages import parts

PATTERNS: Mapping[str, tuple[str, str]] = {
    text_types.FINGERPRINT: (
        "the fingerprint of a key",
        "40 hexadecimal digits, as printed by gpg --show-keys FILE",
    ),
    text_types.KEY_FILE: ("a file name", "the name of a file in the mirror, such as 3bf863cc.pub"),
    text_types.MIRROR: (
        "the address of a mirror",
        "such as https://mirror.example.org/debian, without user and password",
    ),
    site.FILE_PATH: (
        "the path of a file",
        "at most 1024 characters, without line breaks and other control characters",
    ),
    secret.VARIABLE: ("the name of a variable", "letters, digits and _, such as ACME_MUNGE_KEY"),
    site.MAC: ("a MAC address", "six pairs in lower case, such as 52:54:00:12:34:56"),
    text_types.ABSOLUTE_PATH: (
        "an absolute path",
        "letters, digits and ._- after a /, such as /srv/data",
    ),
    text_types.ACCOUNT_NAME: (
        "an account name",
        'lower-case letters, digits, "_" and "-", such as alice',
    ),
    text_types.CHART_VERSION: ("a version of a chart", "such as 1.7.0 or v4.13.4"),
    text_types.DEVICE: ("a block device", "such as /dev/nvme0n1 or /dev/disk/by-id/..."),
    images.IDENTITY: (
        "an image identity",
        '"digest sha256:" or "id sha256:" and 64 hexadecimal digits, as written by appliance images lock',
    ),
    text_types.HOST_NAME: ("a host name", 'lower-case letters, digits and "-", such as gpu-1'),
    text_types.DURATION: ("a duration", "a number and m, h or d, such as 30m or 8h"),
    text_types.DAY: ("a day", 'in quotes, such as "2026-11-25"'),
    text_types.VERSION: (
        "a version",
        'in quotes, as printed by the package manager: "1.1.5+ds1-1"',
    ),
    text_types.SHA256: ("a SHA-256 digest", "64 hexadecimal digits, as printed by sha256sum"),
    text_types.CERTIFICATES: (
        "certificates in PEM",
        "as a block: ca: |, then the lines from BEGIN CERTIFICATE to END CERTIFICATE",
    ),
    text_types.LINE: ("plain text", "one line, without braces and control characters"),
    text_types.LABEL_VALUE: (
        "a valid label value",
        'letters, digits and "._-" between them, at most 63, such as hpc-2026',
    ),
    text_types.FILE: (
        "a path",
        "letters, digits, spaces and ._/@%+=,:~()#- after the first character, such as secrets/bmc",
    ),
    text_types.PROFILE: ("a profile", "its name, such as hpc, or its file, such as ./mine.yml"),
    text_types.RELEASE: ("a release", "write numbers and dots, such as 1.35 or 580"),
    text_types.SERVER: ("a host name or address", "such as ntp1.example.org or 10.0.0.1"),
    text_types.NETWORK_NAME: (
        "a name of a network",
        'lower-case letters, digits and "-", at most 31: hosts have names such as gpu-1-storage in it',
    ),
    text_types.KEPT: (
        "a valid entry of keep",
        "a path such as /etc/cron.d/backup, SHA256:... of a key, or account NAME",
    ),
    text_types.ZONE: (
        "a time zone",
        "choose one of timedatectl list-timezones, such as Europe/Berlin",
    ),
    text_types.LAYOUT: ("a MIG layout", "a name, or instances such as 3g.40gb, 2 x 1g.10gb"),
    text_types.SWITCH: ("a switch", "its name in the fabric or its GUID, at most 64 characters"),
    text_types.PRODUCT: ("a product's name", "as printed by nvidia-smi -L: NVIDIA A100-SXM4-80GB"),
    provision.PLACE: (
        "a name in /dev/disk/by-path",
        "letters, digits and .:_-, such as pci-0000:41:00.0-nvme-1",
    ),
    provision.IDENTITY: (
        "a serial number, WWN or model",
        "letters, digits, spaces and ._:/+-, at most 64, as shown by lsblk",
    ),
    text_types.BIOS_SETTING: (
        "a BIOS setting",
        "letters, digits and _.:-, at most 128, such as NumaNodesPerSocket",
    ),
    text_types.FIRMWARE: (
        "a component or a version",
        "letters, digits, spaces and ._:()/+-, at most 96, such as 2.10.2",
    ),
    text_types.BMC_USER: (
        "an account of a BMC",
        "letters, digits and ._@-, at most 32, such as admin",
    ),
    text_types.SECRET: ("a secret's name", "such as munge_key"),
    text_types.COMPONENT: ("a component", "such as driver_branch or kai"),
    text_types.LIMIT: ("the id of a check", "such as base.clock or gpu.xid.63"),
    text_types.UNIT: (
        "a unit",
        "such as s, GiB or %, the unit of the check: appliance explain CHECK",
    ),
    text_types.DATE: ("a date", "such as 2026-11 or 2026-11-02"),
    text_types.SYSCTL: (
        "a kernel parameter",
        "with dots, such as vm.swappiness or net.core.rmem_max",
    ),
    text_types.SYSCTL_VALUE: (
        "a value of a kernel parameter",
        "words separated by one space, such as 4096 87380",
    ),
    text_types.HUB_CLASS: ("a class of JupyterHub", "such as GenericOAuthenticator"),
    text_types.HUB_SETTING: ("a setting of JupyterHub", "such as allowed_users"),
    text_types.IMAGE_NAME: ("an image's name", "such as docker.io/library/busybox:1.36.1"),
} | {
    pattern: words
    for part in parts("site")
    for pattern, words in getattr(part, "WORDS", {}).items()
}
KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "keys and values",
    "model_type": "keys and values",
}
BOUNDS = {"ge": "at least", "le": "at most", "gt": "more than", "lt": "less than"}
TRUTH = {"yes": "true", "on": "true", "no": "false", "off": "false"}


def explain(
    model: type[BaseModel],
    path: KeyPath,
    errors: Sequence[ErrorDetails],
    written: str | None = None,
) -> tuple[str, str]:
    """The problem at ``path``, and its remedy. ``written``: a number as written in the file."""
    error = errors[0]
    kind, value = error["type"], error["input"]
    wanted = _annotation(model, path)
    if kind == "missing":
        return "is missing", _missing(wanted, str(path[-1]))
    if kind == "extra_forbidden":
        return "is an unknown key", _instead(model, path)
    if any(str(part) == "[key]" for part in error["loc"]):
        return "is not a valid name", _pattern(error)[1]
    if len(errors) > 1 and kind in KINDS:
        return f"must be a single value, not {_kind(value)}", "write a number, text, true or false"
    if kind in KINDS:
        return _wrong_type(kind, value, wanted, written)
    return _bad_value(error, wanted)


def _wrong_type(kind: str, value: object, wanted: object, written: str | None) -> tuple[str, str]:
    if wanted in (IPv4Address, IPv4Network):
        return f"must be an IPv4 {_ip_kind(wanted)}, not {_kind(value)}", _ip_example(wanted)
    seen = f"the number {written}" if written else _kind(value)
    said = "has no value" if value is None else f"must be {KINDS[kind]}, not {seen}"
    if kind == "string_type" and isinstance(value, int | float):
        return said, f'put it in quotes: "{written or json.dumps(value)}"'
    if kind == "bool_type" and str(value).lower() in TRUTH:
        return said, f"write {TRUTH[str(value).lower()]}"
    if kind == "tuple_type" and value is not None and not isinstance(value, dict):
        return said, "write it as [...] or as lines that begin with -"
    if kind == "model_type":
        return said, f"keys are {', '.join(_names(wanted))}" if _names(wanted) else "see the schema"
    return said, f"write {KINDS[kind]}, or remove the key"


def _bad_value(error: ErrorDetails, wanted: object) -> tuple[str, str]:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    match kind:
        case "string_pattern_mismatch":
            what, shape = _pattern(error)
            return f"{shown(value)} is not {what}", shape
        case "literal_error" | "enum":
            accepted = _accepted(wanted)
            return f"{shown(value)} is not accepted", _accepted_words(str(value), accepted)
        case "greater_than_equal" | "less_than_equal" | "greater_than" | "less_than":
            word, limit = next((BOUNDS[k], v) for k, v in context.items() if k in BOUNDS)
            return (
                f"{shown(value)} is out of range",
                f"{word} {int(limit) if limit == int(limit) else limit}",
            )
        case "too_short" | "string_too_short":
            return "is empty", "give at least one" + (" character" if kind != "too_short" else "")
        case "string_too_long":
            return f"has {len(str(value))} characters", f"at most {context['max_length']}"
        case "too_long":
            many = context.get("actual_length") or "too many"
            return f"has {many} entries", f"at most {context['max_length']}"
    if wanted in (IPv4Address, IPv4Network):
        return f"{shown(value)} is not an IPv4 {_ip_kind(wanted)}", _ip_example(wanted, value)
    said = error["msg"].removeprefix("Value error, ").partition(": ")
    return said[0], said[2] or "see docs/site.md"


def known_keys(model: type[BaseModel], path: KeyPath) -> tuple[str, ...]:
    """Keys of the schema at ``path``; none if names are free."""
    return _names(_annotation(model, path))


def _names(wanted: object) -> tuple[str, ...]:
    if isinstance(wanted, type) and issubclass(wanted, BaseModel):
        return tuple(info.alias or name for name, info in wanted.model_fields.items())
    return ()


def _annotation(model: type[BaseModel], path: KeyPath) -> Any:
    """The type declared at ``path``, without Annotated and None; None if nothing is declared."""
    here: Any = model
    for part in path:
        here = _step(here, part)
    return here


def _step(here: Any, part: str | int) -> Any:
    if isinstance(here, type) and issubclass(here, BaseModel):
        named = {info.alias or name: info for name, info in here.model_fields.items()}
        info = named.get(str(part))
        return _bare(info.annotation) if info else None
    if get_origin(here) is tuple and isinstance(part, int):
        return _bare(get_args(here)[0])
    if get_origin(here) is dict:
        return _bare(get_args(here)[1])
    return None


def _bare(annotation: Any) -> Any:
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [a for a in get_args(annotation) if a is not type(None)]
        return _bare(rest[0]) if len(rest) == 1 else annotation
    return annotation


def _accepted(wanted: Any) -> tuple[str, ...]:
    if get_origin(wanted) is Literal:
        return tuple(str(v) for v in get_args(wanted))
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return tuple(str(member.value) for member in wanted)
    return ()


def _nearest(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    listing = f"known: {', '.join(known)}" if known else "remove it"
    return f'did you mean "{close[0]}"?' if close else listing


def _accepted_words(word: str, accepted: Sequence[str]) -> str:
    close = get_close_matches(word.lower(), accepted, n=1, cutoff=0.6)
    listing = f"accepted: {', '.join(accepted)}"
    return f'did you mean "{close[0]}"? {listing}' if close else listing


def intended(model: type[BaseModel], path: KeyPath) -> tuple[str, ...]:
    """The known key that an unknown one resembles; empty if there is none."""
    known = known_keys(model, path[:-1])
    return tuple(get_close_matches(str(path[-1]).lower(), known, n=1, cutoff=0.6))


def _instead(model: type[BaseModel], path: KeyPath) -> str:
    """The intended key: a similar one here, or the same name in a section."""
    word, known = str(path[-1]), known_keys(model, path[:-1])
    close = intended(model, path)
    sections = [name for name in model.model_fields if word in known_keys(model, (name,))]
    if sections and not close:
        return f"it belongs to {' or '.join(sections)}: {sections[0]}.{word}"
    return _nearest(word, known)


def _missing(wanted: object, key: str) -> str:
    if _names(wanted):
        return f'add "{key}:" with {", ".join(_names(wanted))}'
    if _accepted(wanted):
        return f"add {key}: {' or '.join(_accepted(wanted))}"
    if wanted in (IPv4Address, IPv4Network):
        return f"add it, {_ip_example(wanted)}"
    return f'add "{key}: ..."'


def _pattern(error: ErrorDetails) -> tuple[str, str]:
    pattern = str(error.get("ctx", {}).get("pattern", ""))
    return PATTERNS.get(pattern, ("in the right format", f"it must match {pattern}"))


def _ip_kind(wanted: object) -> str:
    return "address" if wanted is IPv4Address else "network"


def _ip_example(wanted: object, value: object = None) -> str:
    if wanted is IPv4Address:
        return "four numbers from 0 to 255, such as 10.0.0.11"
    try:
        return f"the network of that address is {ip_interface(str(value)).network}"
    except ValueError:
        return "address and prefix length, such as 10.0.0.0/24"


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return f"the number {value}"
    names: Mapping[type, str] = {str: "text", list: "a list", dict: "keys and values"}
    return names.get(type(value), "nothing")


def shown(value: object) -> str:
    """A value as quoted in a message: short, and without a password in an address."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = re.sub(r"//[^/@]*@", "//***@", text)
    text = text if len(text) <= 60 else text[:57] + "..."
    return json.dumps(text, ensure_ascii=False) if isinstance(value, str) else text
