"""What is printed: commands that name the site this process speaks of, and no secret that it has read."""

from typing import TypeVar

from appliance.hidden import hidden
from appliance.report.advice import Address, told

T = TypeVar("T")


class _Spoken:
    address = Address()


def speak_of(address: Address) -> None:
    """Advice names this site from now on."""
    _Spoken.address = address


def advice(value: T) -> T:
    """A text, or anything with texts in it, whose commands name the site as the user did."""
    return told(hidden(value), _Spoken.address)


def advice_elsewhere(value: T) -> T:
    """The same for readers who are in other folders: paths are absolute."""
    return told(hidden(value), _Spoken.address.absolute())
