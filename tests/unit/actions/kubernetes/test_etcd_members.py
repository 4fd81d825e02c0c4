"""What the hosts' programs for etcd answer: read as it must be, or that host's failure."""

import json
from typing import Any

import pytest

from appliance.actions.kubernetes.etcd_backups import Backup, Examined
from appliance.actions.kubernetes.etcd_members import EtcdMember, answer
from appliance.adapters.process import Completed
from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.stages.kubernetes.site import KubernetesOptions
from tests.support.engine_fakes import FakeHosts
from tests.support.engine_session import hosts, recorder, session

__all__ = ["hosts", "recorder", "session"]


PART = {"name": "head", "peer": "https://10.0.0.1:2380", "authority": "a", "free": 1}
ORDER = {"id": "1", "backup": "b", "digest": "d", "members": {"head": "https://10.0.0.1:2380"}}


def asked(session: Session, hosts: FakeHosts, kind: Any, said: str) -> Any:
    with_cluster = session.site.model_copy(update={"kubernetes": KubernetesOptions()})
    object.__setattr__(session, "site", with_cluster)
    hosts.answer = lambda host, argv: Completed(tuple(argv), 0, said, "")
    return answer(session, "head", kind, "appliance-etcd", "look")


def test_parts_and_backups_are_read(session: Session, hosts: FakeHosts) -> None:
    part = asked(session, hosts, EtcdMember, json.dumps({**PART, "step": "", "order": ORDER}))
    assert part.order.members == ORDER["members"]
    assert asked(session, hosts, EtcdMember, json.dumps({**PART, "order": None})).order is None
    said = {"backups": [{"name": "n", "bytes": 1, "written": 2}], "digest": "d"}
    assert asked(session, hosts, Examined, json.dumps(said)) == Examined((Backup("n", 1, 2),), "d")


@pytest.mark.parametrize(
    "said",
    ["", "[" * 100_000, "[]", "{}", '{"name": 1}', json.dumps({**PART, "order": {"id": "1"}})],
)
def test_anything_else_is_that_hosts_failure(said: str, session: Session, hosts: FakeHosts) -> None:
    with pytest.raises(ApplianceError, match="cannot be read") as refusal:
        asked(session, hosts, EtcdMember, said)
    assert refusal.value.host == "head"
    assert refusal.value.message.isprintable()
