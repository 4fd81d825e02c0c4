"""What earlier releases kept in the clear is taken out of the journal, and compares as it did."""

import base64
import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from appliance.engine.journal_redaction import redact_journal
from appliance.engine.look.posture import Day, posture_differences
from appliance.engine.session import Session
from appliance.journal import Journal
from appliance.probe.keys import of_account
from appliance.report.difference_lines import lines
from tests.support.facts import facts_of

BLOB = base64.b64encode(b"\0\0\0\x0bssh-ed25519" + b"k" * 36).decode()
KEY = "SHA256:" + base64.b64encode(hashlib.sha256(base64.b64decode(BLOB)).digest()).decode()[:-1]
SECRET = "fifsLqj6o1NwCanary"
OPTION = f'command="restic {SECRET}",no-pty'
FILE = (
    f"{OPTION} ssh-ed25519 {BLOB} a laptop\nssh-ed25519 {BLOB[:-4]}bGw=\nroot:$6${SECRET}:1::::::\n"
)
OLD = {
    f"{KEY} of ada": f"{OPTION} ssh-ed25519  a laptop",
    f"root:$6${SECRET}:1:::::: of ada": f"root:$6${SECRET}:1::::::",
}
CAUSE = f'/etc/cron.d/x is not the appliance\'s (of root, 2026-11-20 10:00 UTC): "* * * * * root curl -u a:{SECRET} https://x/"'
AT = "gpu-1/root/.ssh/authorized_keys"


def before(journal: Journal) -> None:
    """As the release before left it."""
    journal.append("r1", "posture", host="gpu-1", things={"key": OLD}, owned=[])
    strange = {"kind": "file", "at": "/etc/x", "line": f"StoragePass={SECRET}", "lines": 1}
    garbage = {"kind": "key", "at": "/root/.ssh/authorized_keys", "line": SECRET}
    journal.append("r1", "facts", host="gpu-1", facts={"foreign": [strange, garbage]})
    told: dict[str, Any] = {"status": "fail", "cause": CAUSE, "target": f"{AT} {SECRET}"}
    journal.append("r1", "health", check="base.foreign", **told)
    result: dict[str, Any] = {
        "id": "base.foreign",
        "parts": [f"root/.ssh/authorized_keys {SECRET}"],
        **told,
    }
    journal.append("r1", "result", **result)
    journal.append("r1", "handover", baseline={"results": [result]}, archive="a")
    journal.append("r1", "note", words="stays as it was")


def test_no_line_of_an_earlier_release_is_left_in_its_files(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        before(journal)
        assert redact_journal(journal) == 5
        assert redact_journal(journal) == 0
        assert [e.data for e in journal.entries("note")] == [{"words": "stays as it was"}]
        for file in tmp_path.iterdir():
            assert SECRET.encode() not in file.read_bytes(), file.name
        with pytest.raises(sqlite3.Error, match="append-only"):
            journal._db.execute("UPDATE entry SET data = '{}'")
    with Journal(tmp_path) as journal:
        assert redact_journal(journal) == 0
        (health,) = journal.entries("health")
        assert str(health.data["cause"]).endswith('root … https://x/…"')
        assert health.data["target"] == f"{AT} lines that are no key: 1"


def test_a_key_that_was_kept_as_a_line_is_the_same_key(session: Session) -> None:
    session.journal.append("r1", "posture", host="gpu-1", things={"key": OLD}, owned=[])
    first = FILE.splitlines()[0]
    now: dict[str, Any] = dict(of_account("ada", [f"{first}\n{FILE.splitlines()[2]}\n"]))
    facts = {"gpu-1": facts_of("gpu-1", posture={"things": {"key": now}, "owned": []})}
    assert lines(posture_differences(session, Day(), facts)) == []
    redact_journal(session.journal)
    assert lines(posture_differences(session, Day(), facts)) == []
    assert SECRET not in json.dumps(now)


def test_what_another_version_wrote_in_its_own_form_stops_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append("r1", "posture", things=[1], owned=None)
        journal.append("r1", "facts", facts={"foreign": [1, {"kind": "file"}]})
        journal.append("r1", "handover", baseline="x")
        before(journal)
        assert redact_journal(journal) == 5
