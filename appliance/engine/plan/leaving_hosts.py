"""Hosts and partitions that were removed from the site and still have jobs: stage slurm would end those jobs silently."""

from appliance.engine.look.gather import Round
from appliance.engine.look.survey import view_of
from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.models.plan import Plan
from appliance.stages.slurm.checks import LEAVE, STAY, jobs_in, leaving, leaving_partitions
from appliance.text import plural

SLURM = "slurm"


def refuse_leaving(session: Session, found: Round, plan: Plan) -> None:
    """Raises ApplianceError if stage slurm would remove a node or a partition with jobs."""
    if not any(cell.stage == SLURM for cell in plan.pending()):
        return
    view = view_of(session, found)
    for one in leaving_partitions(view):
        raise ApplianceError(
            f"partition {one.name} is no longer in the site, but has {jobs_in(one)}; stage slurm would end them",
            STAY.format(one.name),
        )
    busy = leaving(view)
    if not busy:
        return
    names = ", ".join(node.name for node in busy)
    raise ApplianceError(
        f"{plural(len(busy), 'host')} no longer in the site still {'runs' if len(busy) == 1 else 'run'} jobs: {names}; "
        "stage slurm would end them",
        LEAVE.format(names.replace(" ", "")),
    )
