r"""Types of texts, names and lists in site and profile: a pattern for the purpose of each, and its size.

Patterns are valid in Rust's regex and in JSON Schema: ``$`` is the end of the text, not before a final line end. Digits are
written [0-9], because ``\d`` matches those of every script.
"""

from typing import Annotated, Literal, TypeVar

from pydantic import Field

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

FEW, MANY, HOSTS, CABLES = 64, 1_000, 10_000, 100_000
PATH_LENGTH = 200

Few = Annotated[tuple[T, ...], Field(max_length=FEW)]
"""Items per host or person."""
Many = Annotated[tuple[T, ...], Field(max_length=MANY)]
"""People, projects, queues."""
PerHost = Annotated[tuple[T, ...], Field(max_length=HOSTS)]
PerCable = Annotated[tuple[T, ...], Field(max_length=CABLES)]
Named = Annotated[dict[K, V], Field(max_length=MANY)]
NamedFew = Annotated[dict[K, V], Field(max_length=FEW)]
NamedPerHost = Annotated[dict[K, V], Field(max_length=HOSTS)]

HIDDEN = r"\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
"""Control characters, other line ends, and marks of width and direction."""
LINE = rf"^[^{HIDDEN}{{}}]*$"
"""Read by people only; without braces, because no text of a file is a template."""
LABEL_VALUE = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
"""A value of a Kubernetes label (kubernetes.io, Labels and Selectors)."""
NO_FILE = HIDDEN + r"{}$`\"'\\;|&<>*?!"
FILE = rf"^[^ {NO_FILE}-]([^{NO_FILE}]*[^ {NO_FILE}])?$"
"""A path on this machine, without characters that a shell, ssh or a template would interpret."""
PROFILE = rf"^[^ {NO_FILE}-][^{NO_FILE}]*$"
KEPT = rf"^(/[^{HIDDEN}{{}}$`\"'\\;|&<>!]+|SHA256:[A-Za-z0-9+/]{{43}}|account [a-z_][a-z0-9_-]{{0,31}})$"
"""A path with wildcards, a key's fingerprint, an account."""
RELEASE = r"^[0-9]{1,5}(\.[0-9]{1,5}){0,3}$"
SERVER = (
    r"^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$"
)
NETWORK_NAME = r"^[a-z0-9]([a-z0-9-]{0,29}[a-z0-9])?$"
"""Becomes a part of a host's second name: gpu-1-storage."""
ZONE = r"^[A-Za-z][A-Za-z0-9_+-]{0,31}(/[A-Za-z0-9_+-]{1,31}){0,2}$"
LAYOUT = r"^[a-z0-9][A-Za-z0-9.+,* -]{0,199}$"
SWITCH = r"^[A-Za-z0-9][A-Za-z0-9 ._:;/()+-]{0,63}$"
"""A node description of 64 bytes (InfiniBand specification, NodeDescription), or a GUID."""
PRODUCT = r"^[A-Za-z0-9][A-Za-z0-9 ._()/+-]{0,95}$"
"""Product names as in NVML (NVML_DEVICE_NAME_V2_BUFFER_SIZE is 96)."""
BIOS_SETTING = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$"
"""From the registry of attributes that a BMC names (Redfish AttributeRegistry, AttributeName)."""
FIRMWARE = r"^[0-9A-Za-z][0-9A-Za-z ._:()/+-]{0,95}$"
"""A component as listed by a BMC, and a version."""
BMC_USER = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,31}$"
SECRET = r"^[a-z][a-z0-9_]{0,62}$"
COMPONENT = r"^[a-z][a-z0-9_]{0,31}$"
LIMIT = r"^[a-z][a-z0-9_]{0,31}(\.[a-z0-9_]{1,31}){1,3}$"
UNIT = r"^[A-Za-z°%][A-Za-z°%/ ]{0,15}$|^$"
DATE = r"^([0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?)?$"
SYSCTL = r"^(abi|debug|dev|fs|kernel|net|sunrpc|user|vm)(\.[A-Za-z0-9_-]{1,64}){1,8}$"
SYSCTL_VALUE = r"^[A-Za-z0-9_.:,/%+-]{1,64}( [A-Za-z0-9_.:,/%+-]{1,64}){0,15}$"
HUB_CLASS = r"^[A-Za-z][A-Za-z0-9_]{0,62}$"
HUB_SETTING = r"^[a-z_][A-Za-z0-9_]{0,62}$"
IMAGE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}$"

Line = Annotated[str, Field(pattern=LINE, max_length=300)]
LabelValue = Annotated[str, Field(pattern=LABEL_VALUE)]
File = Annotated[str, Field(pattern=FILE, max_length=1000)]
ProfileName = Annotated[str, Field(pattern=PROFILE, max_length=1000)]
Release = Annotated[str, Field(pattern=RELEASE)]
Server = Annotated[str, Field(pattern=SERVER, max_length=253)]
NetworkName = Annotated[str, Field(pattern=NETWORK_NAME)]
Zone = Annotated[str, Field(pattern=ZONE)]
LayoutText = Annotated[str, Field(pattern=LAYOUT)]
Switch = Annotated[str, Field(pattern=SWITCH)]
Product = Annotated[str, Field(pattern=PRODUCT)]
BiosSetting = Annotated[str, Field(pattern=BIOS_SETTING)]
Firmware = Annotated[str, Field(pattern=FIRMWARE)]
BmcUser = Annotated[str, Field(pattern=BMC_USER)]
SecretName = Annotated[str, Field(pattern=SECRET)]
Component = Annotated[str, Field(pattern=COMPONENT)]
LimitName = Annotated[str, Field(pattern=LIMIT)]
Unit = Annotated[str, Field(pattern=UNIT)]
Date = Annotated[str, Field(pattern=DATE)]
SysctlKey = Annotated[str, Field(pattern=SYSCTL, max_length=128)]
SysctlValue = Annotated[str, Field(pattern=SYSCTL_VALUE, max_length=200)]
HubClass = Annotated[str, Field(pattern=HUB_CLASS)]
HubSetting = Annotated[str, Field(pattern=HUB_SETTING)]
ImageName = Annotated[str, Field(pattern=IMAGE_NAME)]
PublicKey = Annotated[str, Field(max_length=16_384)]
"""Judged as a whole by a rule, whose message never quotes a private key."""
System = Literal["debian-12", "debian-13", "ubuntu-22.04", "ubuntu-24.04", "rhel-9"]
Area = Literal["gpu", "fabric"]
"""What the virtual rack simulates."""
Simulated = Literal["cpu", "fabric", "gpu", "host", "memory", "unknown"]
"""What a host reports of itself; ``host``: all of a virtual machine, ``unknown``: its marker cannot be read."""

ABSOLUTE_PATH = r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$"
ACCOUNT_NAME = r"^[a-z_][a-z0-9_-]{0,30}$"
CHART_VERSION = r"^v?[0-9]{1,5}\.[0-9]{1,5}\.[0-9]{1,5}([-+][0-9A-Za-z.-]{1,32})?$"
DEVICE = r"^/dev(/[A-Za-z0-9_][A-Za-z0-9._:+-]*)+$"
DURATION = r"^[1-9][0-9]{0,4}[mhd]$"
FINGERPRINT = r"^[0-9A-Fa-f]{40}$"
HOST_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
KEY_FILE = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
PORT = r"(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
"""1 to 65535."""
MIRROR = (
    rf"^https?://[A-Za-z0-9]([A-Za-z0-9.-]{{0,251}}[A-Za-z0-9])?(:{PORT})?"
    r"(/[A-Za-z0-9_~-][A-Za-z0-9._~:+-]*)*/?$"
)
DAY = r"^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
VERSION = r"^[0-9][A-Za-z0-9.+:~-]{0,99}$"
"""Of a package or a kernel."""
SHA256 = r"^[0-9a-f]{64}$"
CERTIFICATES = r"^-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n -]*-----END CERTIFICATE-----\n?$"

AbsolutePath = Annotated[str, Field(pattern=ABSOLUTE_PATH, max_length=PATH_LENGTH)]
AccountName = Annotated[str, Field(pattern=ACCOUNT_NAME)]
Day = Annotated[str, Field(pattern=DAY)]
VersionText = Annotated[str, Field(pattern=VERSION)]
Device = Annotated[str, Field(pattern=DEVICE, max_length=PATH_LENGTH)]
Duration = Annotated[str, Field(pattern=DURATION)]
Fingerprint = Annotated[str, Field(pattern=FINGERPRINT)]
HostName = Annotated[str, Field(pattern=HOST_NAME)]
Kept = Annotated[str, Field(pattern=KEPT, max_length=PATH_LENGTH)]
KeyFile = Annotated[str, Field(pattern=KEY_FILE)]
MirrorUrl = Annotated[str, Field(pattern=MIRROR, max_length=1000)]


def minutes(duration: str) -> int:
    """A duration as 30m, 8h or 1d in minutes."""
    return int(duration[:-1]) * {"m": 1, "h": 60, "d": 1440}[duration[-1]]
