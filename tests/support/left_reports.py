"""Left reports, as several test modules use it."""

from datetime import UTC, datetime
from pathlib import Path

from appliance.models.result import Verdict
from appliance.models.run import RunRecord


def leave(folder: Path, run: str, verdict: Verdict = Verdict.PASSED) -> None:
    now = datetime.now(UTC)
    record = RunRecord(
        run=run,
        verb="deploy",
        site="acme",
        profile="hpc",
        started=now,
        finished=now,
        user="root",
        appliance="0.1.0",
        control_host="head",
        verdict=verdict,
    )
    (folder / run).mkdir(parents=True)
    (folder / run / "report.json").write_text(record.model_dump_json())
