"""Cluster upgrades, as several test modules use it."""

from tests.integration.rack import Event

STAGE = ("--stage", "kubernetes", "--json")


UPGRADE = "Upgrade kubeadm, the control plane or this host's part of it, and kubelet"


def upgrades(events: list[Event], host: str) -> bool:
    """Whether a host is being upgraded."""
    return any(
        e["event"] == "host_task" and e["host"] == host and UPGRADE in e["task"] for e in events
    )


def saved_as(events: list[Event]) -> list[str]:
    """Names of the backups of etcd that a run told of."""
    texts = [e["text"] for e in events if e["event"] == "message"]
    return [text.split()[4] for text in texts if text.startswith("etcd is saved as ")]
