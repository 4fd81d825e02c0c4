"""NVML through ctypes: the calls that the probe needs, with names and layouts of NVIDIA's nvml.h."""

from __future__ import annotations

import ctypes

from appliance.probe.problems import MISMATCH, Absent, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIBRARY = "libnvidia-ml.so.1"
SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 0, 2, 3, 4
INSUFFICIENT_SIZE, FUNCTION_NOT_FOUND, NO_DATA, VERSION_MISMATCH, DEPRECATED = 7, 13, 21, 25, 26
LIB_RM_VERSION_MISMATCH = 18
SILENT = frozenset({INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND, VERSION_MISMATCH})
"""Codes that mean that this GPU or driver lacks the feature."""
UNTOLD = frozenset({NO_PERMISSION, NO_DATA, DEPRECATED})
"""Codes that concern the request or the caller, not the GPU."""
UINT, ULONG = ctypes.c_uint, ctypes.c_ulonglong


class Mismatched(Unreadable):
    """The versions of library and loaded driver differ."""

    kind = MISMATCH


class Failure(Exception):
    """A call failed because of the GPU or the driver."""

    def __init__(self, said: str, code: int = 0) -> None:
        super().__init__(said)
        self.code = code


class PciInfo(ctypes.Structure):
    """nvmlPciInfo_t since version 3."""

    _fields_ = (
        ("legacy", ctypes.c_char * 16),
        ("domain", UINT),
        ("bus", UINT),
        ("device", UINT),
        ("pci_device", UINT),
        ("pci_subsystem", UINT),
        ("bus_id", ctypes.c_char * 32),
    )


class Memory(ctypes.Structure):
    """nvmlMemory_t: bytes."""

    _fields_ = (("total", ULONG), ("free", ULONG), ("used", ULONG))


class Utilization(ctypes.Structure):
    """nvmlUtilization_t: percent."""

    _fields_ = (("gpu", UINT), ("memory", UINT))


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t; the value's union is as wide as its largest member."""

    _fields_ = (
        ("field", UINT),
        ("scope", UINT),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("type", ctypes.c_int),
        ("code", ctypes.c_int),
        ("value", ULONG),
    )


class SramErrors(ctypes.Structure):
    """nvmlEccSramErrorStatus_v1_t."""

    _fields_ = (
        ("version", UINT),
        ("counts", ULONG * 11),
        ("exceeded", UINT),
    )


class Margin(ctypes.Structure):
    """nvmlMarginTemperature_v1_t: degrees Celsius."""

    _fields_ = (("version", UINT), ("margin", ctypes.c_int))


def versioned(record: Any, version: int = 1) -> Any:
    """Return a record with its size and version, which newer calls of NVML require."""
    record.version = ctypes.sizeof(record) | version << 24
    return record


class Library:
    """The loaded and initialised library. Raises Absent (not installed) or Unreadable (cannot be initialised)."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise Absent(f"{LIBRARY}: {error}") from error
        code = self.call("nvmlInit_v2")
        if code != SUCCESS:
            why = Mismatched if code == LIB_RM_VERSION_MISMATCH else Unreadable
            raise why(f"NVML does not start: {self.words(code)}")

    def call(self, name: str, *arguments: Any) -> int:
        """Return the code of a call; FUNCTION_NOT_FOUND if this driver lacks the function."""
        try:
            function = getattr(self._library, name)
        except AttributeError:
            return FUNCTION_NOT_FOUND
        return int(function(*arguments))

    def words(self, code: int) -> str:
        """Return NVML's text for a code."""
        function = self._library.nvmlErrorString
        function.restype = ctypes.c_char_p
        return (function(code) or b"").decode() or f"code {code}"

    def works(self, name: str, *arguments: Any) -> bool:
        """Return whether a call is supported and succeeded. Raises Failure for other errors."""
        code = self.call(name, *arguments)
        if code not in SILENT and code != SUCCESS:
            raise Failure(f"{name[4:]}: {self.words(code)}", code)
        return code == SUCCESS

    def text(self, name: str, *before: Any) -> str:
        """Return a string; "" if not supported. Raises Failure."""
        room = ctypes.create_string_buffer(96)
        known = self.works(name, *before, room, UINT(len(room)))
        return room.value.decode("utf-8", "replace") if known else ""

    def number(self, name: str, *before: Any, type: Any = UINT) -> int | None:
        """Return a number; None if not supported. Raises Failure."""
        value = type()
        return int(value.value) if self.works(name, *before, ctypes.byref(value)) else None

    def numbers(self, name: str, count: int, *before: Any) -> list[int] | None:
        """Return several numbers of one call; None if not supported. Raises Failure."""
        values = [UINT() for _ in range(count)]
        known = self.works(name, *before, *(ctypes.byref(value) for value in values))
        return [int(value.value) for value in values] if known else None

    def handle(self, index: int) -> ctypes.c_void_p:
        """Return a device. Raises Failure."""
        device = ctypes.c_void_p()
        if not self.works("nvmlDeviceGetHandleByIndex_v2", UINT(index), ctypes.byref(device)):
            raise Failure("GPU cannot be opened")
        return device

    def close(self) -> None:
        """Shut the library down."""
        self.call("nvmlShutdown")
