"""Which kinds of host keys the site has pinned: role base leaves none of them out."""

from dataclasses import replace

from appliance.config import data
from appliance.engine.look.owned_places import host_key_types
from appliance.engine.run.stage_run import play_of
from appliance.engine.session import Session
from appliance.models.site import Role
from appliance.stages.catalog import STAGES

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGQ+s2qBxJQ6Trt3Mo0wFPeE9EIhRDpRZjX4ybPPXxX8"


def test_kinds_are_told_of_each_host_and_none_of_one_that_is_not_pinned(session: Session) -> None:
    known, other = session.site.hosts[:2]
    file = session.folder / session.site.access.known_hosts
    file.write_text(f"{known.address} {ED25519}\n")
    assert host_key_types(session, [known.name, other.name]) == {
        known.name: ["ssh-ed25519"],
        other.name: [],
    }


def test_a_file_that_cannot_be_read_pins_nothing(session: Session) -> None:
    host = session.site.hosts[0].name
    file = session.folder / session.site.access.known_hosts
    assert host_key_types(session, [host]) == {host: []}
    file.write_text(f"{session.site.hosts[0].address} ssh-ed25519 AAAA\n")
    assert host_key_types(session, [host]) == {host: []}


def test_a_play_without_the_control_host_knows_its_key_for_delegated_tasks(
    session: Session,
) -> None:
    """A GPU host alone joins the cluster with a token from a control host."""
    control = session.site.with_role(Role.CONTROL)[0]
    stage = next(stage for stage in STAGES if stage.name == "kubernetes")
    request = play_of(replace(session, data=data.root()), stage, [], {}, {})
    assert control.name not in request.hosts
    assert str(control.address) in request.delegates
