"""Role slurm: a question without an answer is not taken for an answer."""

from pathlib import Path

import yaml  # noqa: TID251 - reads the role's own files

TASKS = Path(__file__).parents[3] / "roles/slurm/tasks"


def test_repositories_that_do_not_answer_are_not_said_to_offer_nothing() -> None:
    tasks = yaml.safe_load((TASKS / "preflight.yml").read_text("utf-8"))
    ask = next(
        task for task in tasks if task["name"].endswith("Look for Slurm in the repositories")
    )
    # repoquery ends with 0 where a package is unknown, and with 1 where a repository cannot be read.
    assert "failed_when" not in ask
    assert "ignore_errors" not in ask
