"""All that is written from the program itself: ``python -m tools.published`` (make published).

What is built is in no repository: make and the build of the wheel write it. Pages of docs/ and of roles are read in
the repository, too, and committed.
"""

from pathlib import Path

from appliance.alerts import ALERTS, WITHOUT_SLURM, rules_file
from appliance.checks.check import measured_against
from appliance.config.json_schema import MODELS, schema
from appliance.stages.catalog import EVERY_CHECK
from appliance.stages.slurm.stage import STAGE as SLURM
from tools.published import forms, keys, manual, roles, tables

SCHEMAS, MANUAL = "docs/schema", "docs/man"
RULES = "roles/observe/files/etc/prometheus/rules/appliance.yml"
SHARED = "roles/observe/files/usr/local/share/appliance"
RUNBOOK, BOARD_FILES = f"{SHARED}/checks.html", f"{SHARED}/boards"
NO_SLURM = "roles/observe/files/without-slurm"
"""The same rules, runbook and boards for a site that has no Slurm."""
BUILT = (SCHEMAS, MANUAL, RULES, RUNBOOK, BOARD_FILES, NO_SLURM)
"""Files, and folders that hold nothing else."""


def built() -> dict[str, str]:
    """The text of each file that is built, by its path in the checkout."""
    # Grafana's library takes a while to be imported.
    from boards import BOARDS
    from boards.panel import without_slurm
    from boards.render import board_json, kustomization

    checks = [(c.id, c.title, c.explain, measured_against(c) or "none") for c in EVERY_CHECK]
    return {
        **{f"{SCHEMAS}/{kind}.json": schema(kind) for kind in MODELS},
        **{f"{SCHEMAS}/{name}.json": text for name, text in forms.schemas().items()},
        **{f"{MANUAL}/{name}": text for name, text in manual.pages().items()},
        RULES: rules_file.rules(ALERTS),
        RUNBOOK: rules_file.runbook(checks, ALERTS),
        **{f"{BOARD_FILES}/{board.name}.json": board_json(board) for board in BOARDS},
        f"{BOARD_FILES}/kustomization.yaml": kustomization(BOARDS),
        f"{NO_SLURM}/appliance.yml": rules_file.rules(WITHOUT_SLURM),
        f"{NO_SLURM}/checks.html": rules_file.runbook(
            [check for check in checks if not check[0].startswith(f"{SLURM.name}.")], WITHOUT_SLURM
        ),
        **{
            f"{NO_SLURM}/{board.name}.json": board_json(board)
            for board in map(without_slurm, BOARDS)
            if board.panels
        },
    }


def committed(checkout: Path) -> dict[str, str]:
    """The text of each page that is committed, by its path, brought up to date; "" for one that must go."""
    from boards import BOARDS
    from boards.page import PAGE, page

    found = {f"roles/{name}": text for name, text in roles.files(checkout / "roles").items()}
    return {**found, **keys.pages(checkout), **tables.pages(checkout), PAGE: page(BOARDS)}


def write(checkout: Path, files: dict[str, str]) -> None:
    """Write what differs from what is there; a file of no text goes."""
    for name, text in files.items():
        file = checkout / name
        if not text:
            file.unlink(missing_ok=True)
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            # Tests run as root; a file of root's in a folder of one's own can be replaced, and not written.
            file.unlink(missing_ok=True)
            file.write_text(text, encoding="utf-8")


def strays(checkout: Path, files: dict[str, str]) -> list[Path]:
    """Files in the folders of what is built that are none of it, as of a verb that is gone."""
    folders = [checkout / name for name in BUILT]
    found = [file for folder in folders if folder.is_dir() for file in sorted(folder.iterdir())]
    return [file for file in found if str(file.relative_to(checkout)) not in files]
