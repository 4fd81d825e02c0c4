"""The other side: one ansible-playbook over all playbooks, with the inventory and environment a deployment would give it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from appliance.actions.deployment.facts_and_plan import plan_session
from appliance.actions.sites.opening import Target, open_session
from appliance.adapters import leftovers
from appliance.adapters.ansible import Play, stage_in
from appliance.adapters.process import run
from appliance.cli.options import quiet
from appliance.engine.plan.selection import Filters, select
from appliance.engine.run.stage_run import play_of

LIMIT = 900.0
RECAP = re.compile(r"^(\S+)\s*: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.M)


@dataclass(frozen=True)
class Playbooks:
    """All playbooks of a site, ready to be run."""

    argv: tuple[str, ...]
    environment: dict[str, str]

    def run(self) -> None:
        """Runs them. There must be nothing to change: a side that works would be measured against one that looks."""
        done = run(self.argv, env=self.environment, timeout=LIMIT)
        recap = RECAP.findall(done.stdout)
        if not recap or any(changed != "0" for _, _, changed, _, _ in recap):
            raise SystemExit(f"ansible-playbook was not idle:\n{done.stdout[-1500:]}")

    def tasks(self) -> int:
        """How many results one run of them gives, over all hosts."""
        done = run(self.argv, env=self.environment, timeout=LIMIT)
        return sum(int(ok) for _, ok, *_ in RECAP.findall(done.stdout))


@contextmanager
def playbooks(site: Path, *, tuned: bool) -> Iterator[Playbooks]:
    """Inventory and environment of ``site`` in a private folder of memory, which is removed at the end.

    ``tuned``: with all that a deployment sets for speed; else ansible-core packs modules and looks for results as it comes.
    """
    play, files = _everything(site)
    folder = leftovers.private_folder(play.mark)
    try:
        environment = stage_in(folder, play)
        if not tuned:
            del environment["ANSIBLE_CALLBACKS_ENABLED"]
            Path(environment["ANSIBLE_CONFIG"]).write_text("")
        argv = ("ansible-playbook", "-i", str(folder / "inventory"), *map(str, files))
        # This process looks the program up by its own PATH, not by the child's.
        program = f"{environment['PATH'].split(':')[0]}/{argv[0]}"
        yield Playbooks((program, *argv[1:]), environment)
    finally:
        leftovers.end(play.mark)


def _everything(site: Path) -> tuple[Play, list[Path]]:
    """One play with the variables of all stages; they do not meet, since each role's begin with its name."""
    with open_session(Target(site), "benchmark", quiet()) as session:
        planned = plan_session(session, select(session.site, Filters(full=True)))
        plays = [
            play_of(
                session,
                stage,
                [c for c in planned.plan.by_stage(stage.name) if c.action.changes],
                planned.prepared,
                {},
            )
            for stage in planned.selection.stages
        ]
    hosts = {
        h.name: {k: v for p in plays for k, v in p.hosts.get(h.name, {}).items()}
        for h in session.site.hosts
    }
    groups = {role: max((p.groups[role] for p in plays), key=len) for role in plays[0].groups}
    return replace(plays[0], hosts=hosts, groups=groups), [p.playbook for p in plays]
