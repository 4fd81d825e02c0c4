"""Report: the record of a run, read and rendered again."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from appliance.config.bounded_files import opened
from appliance.errors import ApplianceError, ConfigError
from appliance.models.run import RunRecord

LIST = "list the runs: appliance report --list"


@dataclass(frozen=True)
class SavedRun:
    """A run's record and its folder."""

    folder: Path
    record: RunRecord


def runs(folder: Path) -> list[Path]:
    """Folders of runs that left a report, oldest first. Raises ApplianceError if the folder cannot be read."""
    try:
        return [p for p in sorted(folder.iterdir()) if (p / "report.json").exists()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ApplianceError(
            f"{error.filename} cannot be read ({error.strerror})",
            "it belongs to another user: use that account, or correct its owner and mode",
        ) from error


def load(folder: Path, run: str | None = None) -> SavedRun:
    """One run's record, the last one by default. Raises ApplianceError if there is none."""
    kept = runs(folder)
    if run:
        kept = [p for p in kept if p.name == run]
        if not kept:
            raise ConfigError(f"no report of run {run} in {folder}", LIST)
    if not kept:
        raise ApplianceError(
            f"no reports in {folder}",
            "name the site with --site, or create a report: appliance deploy",
        )
    file = kept[-1] / "report.json"
    try:
        with opened(file) as content:
            return SavedRun(kept[-1], RunRecord.model_validate_json(content.read()))
    except (OSError, ValidationError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a record of a run"
        raise ApplianceError(f"{file} cannot be read: {why}", f"choose another: {LIST}") from error
