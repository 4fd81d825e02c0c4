"""The comparison of what was written to Run:ai with what another client reads; the client itself is run by hand."""

import pytest

from tests.support.runai.read_back import differences, fields

SENT = {"name": "a", "resources": [{"gpu": {"deserved": 4, "limit": None}, "rank": "High"}]}


@pytest.mark.parametrize(
    ("back", "said"),
    [
        ({**SENT, "id": "1"}, []),
        ({**SENT, "name": "b"}, ["x.name: sent 'a', read 'b'"]),
        ({"name": "a", "resources": []}, [f"x.resources: sent {SENT['resources']!r}, read []"]),
        (
            {"name": "a", "resources": [{"gpu": {"limit": None}, "rank": None}]},
            ["x.resources[0].gpu.deserved: sent 4, read None"],
        ),
    ],
)
def test_a_field_that_comes_back_otherwise_is_named(
    back: dict[str, object], said: list[str]
) -> None:
    assert list(differences(SENT, back, "x")) == said


def test_every_field_is_counted() -> None:
    assert set(fields(SENT)) == {
        "name",
        "resources.gpu.deserved",
        "resources.gpu.limit",
        "resources.rank",
    }
