"""Reads Prometheus's API on this host, over a plain socket, because importing http.client costs 40 ms of CPU."""

from __future__ import annotations

import calendar
import json
import time

from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.probe.sockets import Stranger, connected, holders_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from appliance.probe.ask import Facts

ADDRESS = ("127.0.0.1", 9090)
TELLER = ("127.0.0.1", 9093)
PORTS = (9090, 9093, 9100)
OWN = ("prometheus", "alertmanager", "node_exporter", "systemd-socket")
"""Prefixes of the expected programs. The stage's own socket unit has one address."""
NOBODY = "nobody"
"""The receiver of role observe that discards alerts."""
PATIENCE = 3.0
OURS = "/etc/prometheus/rules/appliance.yml"
"""Files with rules of stage observe; a site may add its own."""
MOST = 32 << 20
"""Maximum bytes of an answer."""
TIME = "%Y-%m-%dT%H:%M:%S"
DAY = 86400


def collect(
    ask: Ask, address: tuple[str, int] = ADDRESS, teller: tuple[str, int] = TELLER
) -> Facts:
    """The area ``observe``; no listener is an error only if Prometheus is installed."""
    try:
        return _observed(ask, address, teller)
    except Unreadable as error:
        held = _held_ports(ask)
        if not held:
            raise
        ask.problem("observe", error)
        return {"observe": None, **held}


def _held_ports(ask: Ask) -> Facts:
    """Return other programs on the ports of Prometheus, Alertmanager and the node exporter."""
    if not ask.has("prometheus"):
        return {}
    held = [
        {"port": port, "program": one.program, "process": one.process}
        for port, holders in holders_of(ask, PORTS).items()
        for one in holders
        if not one.program.startswith(OWN) and (one.process != 1 or one.of_all)
    ]
    return {"held_ports": held} if held else {}


def _observed(ask: Ask, address: tuple[str, int], teller: tuple[str, int]) -> Facts:
    try:
        active = get(address, "/api/v1/targets?state=active")["activeTargets"]
        groups = get(address, "/api/v1/rules")["groups"]
        told = _told(ask, teller)
        asked = told is not None and get(address, "/api/v1/alertmanagers")["activeAlertmanagers"]
    except ConnectionRefusedError as error:
        if ask.has("prometheus"):
            why = f"; {error.strerror}" if isinstance(error, Stranger) else ""
            ask.problem("observe", f"Prometheus does not listen on {address[0]}:{address[1]}{why}")
        return {"observe": None, **_held_ports(ask)}
    except OSError as error:
        why = error.strerror or "no answer in time"
        raise Unreadable(f"Prometheus on {address[0]}:{address[1]}: {why}") from None
    rules = [rule for group in groups for rule in group["rules"]]
    firing = {rule["name"] for rule in rules if rule.get("state") == "firing"}
    ours = [rule for group in groups if group.get("file", OURS) == OURS for rule in group["rules"]]
    return {
        "observe": {
            "targets": [_target(target) for target in active],
            "rules": sum(map(_works, ours)),
            "waiting": sum(rule.get("health") == "unknown" for rule in ours),
            "firing": sorted(firing),
            "told": told,
            "silences": None if told is None else _silences(ask, teller),
            "sends": len(asked or ()),
        }
    }


def _told(ask: Ask, address: tuple[str, int]) -> list[str] | None:
    """Return Alertmanager's receivers; None if it is missing or does not answer."""
    try:
        said = json.loads(_body(address, "/api/v2/receivers")[1])
        return sorted(name for one in said if (name := one["name"]) != NOBODY)
    except ConnectionRefusedError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        ask.problem("observe", f"Alertmanager on {address[0]}:{address[1]}: {error}")
        return None


def _silences(ask: Ask, address: tuple[str, int]) -> list[Facts] | None:
    """Return silences that have not expired; None if Alertmanager does not answer."""
    try:
        said = json.loads(_body(address, "/api/v2/silences")[1])
        return [_silence(one) for one in said if one["status"]["state"] != "expired"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        ask.problem("observe", f"silences of Alertmanager: {error}")
        return None


def _silence(said: dict[str, Any]) -> Facts:
    begins, ends = said["startsAt"], said["endsAt"]
    return {
        "id": said["id"],
        "by": said["createdBy"],
        "until": ends[:16].replace("T", " ") + " UTC",
        "days": (_seconds(ends) - _seconds(begins)) / DAY,
        "matchers": [_matcher(matcher) for matcher in said["matchers"]],
    }


def _matcher(said: dict[str, Any]) -> Facts:
    return {
        "name": said["name"],
        "value": said["value"],
        "regex": said["isRegex"],
        # Alertmanager before 0.22 knows no other.
        "equal": said.get("isEqual", True),
    }


def _seconds(said: str) -> int:
    """Parse Alertmanager's time format, such as 2026-11-29T07:00:00.000Z. Raises ValueError."""
    if not said.endswith("Z"):
        raise ValueError(f"{said} is no time")
    return calendar.timegm(time.strptime(said[:19], TIME))


def _works(rule: dict[str, Any]) -> bool:
    """Return whether a rule can be evaluated; otherwise it never fires."""
    return rule.get("type", "alerting") == "alerting" and rule.get("health") != "err"


def _target(said: dict[str, Any]) -> Facts:
    labels = said.get("labels", {})
    return {
        "job": labels.get("job", ""),
        "instance": labels.get("instance", ""),
        "health": said.get("health", "unknown"),
        "error": said.get("lastError", ""),
    }


def get(address: tuple[str, int], path: str) -> Any:
    """Return ``data`` of Prometheus's answer. Raises OSError or Unreadable."""
    return data(*_body(address, path))


def _body(address: tuple[str, int], path: str) -> tuple[str, bytes]:
    """Return status and body of an answer. Raises OSError.

    HTTP/1.0, so that the server neither cuts the body in chunks nor keeps the connection.
    """
    with connected(address, PATIENCE) as wire:
        wire.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        parts, size = [], 0
        while size < MOST:
            part = wire.recv(1 << 16)
            if not part:
                break
            parts.append(part)
            size += len(part)
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0].decode("latin-1").split(" ", 1)[-1], body


def data(status: str, body: bytes) -> Any:
    """Return ``data`` of an answer's body. Raises Unreadable."""
    try:
        said = json.loads(body)
    except ValueError:
        raise Unreadable(f"Prometheus answered {status or 'nothing'}") from None
    if not isinstance(said, dict) or said.get("status") != "success":
        raise Unreadable(f"Prometheus answered {status}")
    return said["data"]
