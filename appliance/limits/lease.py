"""Only one of several control hosts acts: the holder of the Lease."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from appliance.limits.trouble import Conflict, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable

    from appliance.limits.api import Api, Resource

DURATION_S = 120
"""Seconds after which a holder that does not renew is replaced."""
SAFE_S = 80.0
"""Seconds after its last renewal during which a holder still acts: no other can have replaced it by then."""
NAME = "appliance-limits"
PATH = "/apis/coordination.k8s.io/v1/namespaces/appliance-limits/leases"


class Lease:
    """``holder`` is the known holder."""

    def __init__(self, me: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._me, self._clock = me, clock
        self._seen: tuple[str, float] = ("", 0.0)
        self._renewed: float | None = None
        self.holder = ""

    def held(self) -> bool:
        """Return whether this host may act now."""
        return self._renewed is not None and self._clock() - self._renewed < SAFE_S

    def take(self, api: Api) -> bool:
        """Renew the lease, or take over an expired one; return whether this host holds it. Raises Trouble."""
        began = self._clock()
        found = api.get(f"{PATH}/{NAME}")
        try:
            if found is None:
                made = {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": NAME},
                }
                if api.create(PATH, {**made, "spec": self._spec({})}) is None:
                    raise Trouble(
                        "the cluster has no namespace appliance-limits: appliance queue apply"
                    )
            elif self._free(found):
                if (
                    api.replace(f"{PATH}/{NAME}", {**found, "spec": self._spec(found["spec"])})
                    is None
                ):
                    raise Conflict("the lease was deleted")
            else:
                self.holder, self._renewed = str(found["spec"].get("holderIdentity")), None
                return False
        except Conflict:
            self._renewed = None
            return False
        self.holder, self._renewed = self._me, began
        return True

    def _free(self, found: Resource) -> bool:
        """Return whether it is ours, free, or not renewed for its duration by this host's own clock."""
        spec = found.setdefault("spec", {})
        mark = f"{spec.get('holderIdentity')} {spec.get('renewTime')}"
        if mark != self._seen[0]:
            self._seen = (mark, self._clock())
        waited = self._clock() - self._seen[1]
        return spec.get("holderIdentity") in (None, "", self._me) or waited > DURATION_S

    def _spec(self, before: Resource) -> Resource:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # noqa: UP017 - Python 3.8
        mine = before.get("holderIdentity") == self._me
        turns = int(before.get("leaseTransitions") or 0)
        return {
            "holderIdentity": self._me,
            "leaseDurationSeconds": DURATION_S,
            "acquireTime": before.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": turns if mine or not before else turns + 1,
        }
