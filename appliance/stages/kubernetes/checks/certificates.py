"""Checks the validity of certificates on a cluster's host, and names who renews each."""

from collections.abc import Mapping
from typing import Any

from appliance.checks.check import View, failed, not_assessed, passed
from appliance.models.facts import HostFacts
from appliance.models.gap import Gap
from appliance.models.result import Judgement
from appliance.models.site import Host
from appliance.stages.kubernetes import ids
from appliance.text import plural

EXPIRY_DAYS = 21.0
OWN_CHOICE = "own choice: kubeadm's certificates are valid for a year, kubelet renews its own when a third is left"


def judge_certificates(
    view: View, host: Host, facts: HostFacts, certificates: Mapping[str, float]
) -> Judgement:
    """Judge certificates. ``certificates``: days left, by file."""
    if not certificates:
        why = facts.gap("kubernetes", "no certificate was found")
        return not_assessed(host.name, why)
    least, source = view.number(ids.CERTIFICATES) or (EXPIRY_DAYS, OWN_CHOICE)
    name, days = min(certificates.items(), key=lambda item: item[1])
    told: dict[str, Any] = {
        "value": days or 0.0,  # never -0.0
        "unit": "days",
        "limit": least,
        "limit_source": source,
        "evidence": name,
    }
    unread = _unread(facts)
    if days >= least and unread:
        return not_assessed(host.name, unread)
    if days >= least:
        return passed(host.name, **told)
    what = (
        f"{name} expired {_since(days)}"
        if days <= 0
        else f"{name} expires in {plural(round(days), 'day')}"
    )
    return failed(host.name, what, _renewal(host, name, days), **told)


def _since(days: float) -> str:
    """Return the time since a certificate expired; ``days`` are negative."""
    return f"{plural(round(-days), 'day')} ago" if days <= -1 else "within the last day"


def _unread(facts: HostFacts) -> Gap | None:
    """Return unreadable certificates in the probe's errors; other errors of the area are ignored."""
    said = [p.text for p in facts.problems if p.area == "kubernetes" and p.at]
    return facts.gap("kubernetes").of("; ".join(said)) if said else None


def _renewal(host: Host, name: str, days: float) -> str:
    """Return the remedy: the host's timer renews kubeadm's certificates of the control plane, but no CA and no certificate of kubelet."""
    if name.endswith("ca.crt"):
        return (
            "rotate the CA by hand, which kubeadm does not renew: kubernetes.io, "
            "Manual Rotation of CA Certificates"
        )
    if "/kubelet/" in name:
        return (
            f"on {host.name}: journalctl -u kubelet shows why kubelet did not renew it; if it has expired: kubeadm kubeconfig user "
            f"--org system:nodes --client-name system:node:{host.name} on a control host prints a new /etc/kubernetes/kubelet.conf"
        )
    if days > 0:
        return (
            f"on {host.name}: journalctl -u appliance-certificates shows why its timer did not renew it 60 days before; "
            "to renew it now: appliance-certificates --days 365"
        )
    return (
        f"on {host.name}: appliance-certificates --days 365 renews it and restarts the control plane of this host; "
        "journalctl -u appliance-certificates shows why its timer did not"
    )
