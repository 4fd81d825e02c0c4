"""Adds the site to printed commands, and masks every secret that the process has read."""

from typing import TypeVar

from appliance.hidden import hidden
from appliance.report.advice import Address, told

T = TypeVar("T")


class _Spoken:
    address = Address()


def speak_of(address: Address) -> None:
    """Printed commands name this site from now on."""
    _Spoken.address = address


def advice(value: T) -> T:
    """A text, or an object with texts, whose commands name the site as the user did."""
    return told(hidden(value), _Spoken.address)


def advice_elsewhere(value: T) -> T:
    """The same for readers in other folders: paths are absolute."""
    return told(hidden(value), _Spoken.address.absolute())
