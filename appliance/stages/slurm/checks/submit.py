"""Checks whether users' jobs are accepted: partitions, accounts, limits, and a test submission."""

import re
from collections.abc import Iterable, Iterator

from appliance.checks.causes import UNASKED, Cause, Reach
from appliance.checks.check import Check, ClusterCheck, Nature, View, failed, not_assessed, passed
from appliance.models.gap import Gap
from appliance.models.result import Judgement, Kind, place
from appliance.models.site import Owner
from appliance.stages.slurm import ids
from appliance.stages.slurm.causes import NO_CONTROLLER
from appliance.stages.slurm.checks import DEPLOY, controller_of, slurm_of
from appliance.stages.slurm.facts import Association, Slurm, SlurmPartition
from appliance.stages.slurm.site import Partition
from appliance.stages.slurm.variables import accounts_of
from appliance.text import plural

OPEN = {
    **{"AllowGroups": "ALL", "AllowAccounts": "ALL", "AllowQos": "ALL", "AllocNodes": "ALL"},
    **{"RootOnly": "NO", "ReqResv": "NO", "MaxNodes": "UNLIMITED", "MaxCPUsPerNode": "UNLIMITED"},
    **{"DenyAccounts": "", "DenyQos": "", "QoS": "N/A"},
    **{"DefaultTime": "NONE", "DisableRootJobs": "NO", "ExclusiveUser": "NO", "Hidden": "NO"},
    **{"OverSubscribe": "NO", "MaxMemPerNode": "UNLIMITED", "MaxMemPerCPU": "UNLIMITED"},
    **{"DefMemPerNode": "UNLIMITED", "DefMemPerCPU": "UNLIMITED", "PreemptMode": "OFF"},
}
"""Slurm's defaults of settings that slurm.conf does not contain."""
NOT_PEOPLE = frozenset({"root", "slurm"})
USUAL = "normal"
"""The QOS of every association without a default of its own (slurmdbd)."""
TOP = "root"
"""The parent of all accounts, which inherit its limits."""
RESTORE = "on {}: scontrol reconfigure, which restores the values of slurm.conf"
OF_ALL = ("account", "QOS")
"""Parts of a cluster that jobs in any partition charge or use."""
LIMIT = "partitions and accounts of the site, without limits of 0"
TIME = re.compile(r"(?:([0-9]+)-)?([0-9]+)(?::([0-9]+))?(?::([0-9]+))?")


def judge_submit(view: View) -> Iterable[Judgement]:
    """Pass if each partition accepts jobs, each account may be charged, and a user's job would be accepted."""
    slurm, why = slurm_of(view)
    if slurm is None:
        return [not_assessed("cluster", why)]
    if slurm.controller.lower() != "up":
        return [not_assessed("cluster", Gap("the controller is down"))]
    head = getattr(controller_of(view), "name", "")
    found = [*_partitions(view, slurm, head), *_accounts(view, slurm, head)]
    found += [*_reservations(view, slurm, head), *_tried(view, slurm)]
    if found:
        return found
    if not slurm.submissions:
        none = Gap("no test job was submitted: none of its users has an account on the controller")
        return [not_assessed("cluster", view.facts[head].gap("slurm", none.text))]
    evidence = f"test jobs accepted: {len(slurm.submissions)}"
    return [passed("cluster", limit=LIMIT, evidence=evidence)]


def _partitions(view: View, slurm: Slurm, head: str) -> Iterator[Judgement]:
    if slurm.partitions is None:
        none = "partitions were not read"
        yield not_assessed("cluster", view.facts[head].gap("slurm", none))
        return
    live = {one.name: one for one in slurm.partitions}
    for wanted in view.site.slurm_options.partitions:
        at = place("cluster", f"partition {wanted.name}")
        one = live.get(wanted.name)
        if one is None:
            cause = f"Slurm has no partition {wanted.name}: jobs that name it are refused"
            fix = f"{RESTORE.format(head)}; then {DEPLOY} --stage slurm"
            yield failed(at, cause, fix, kind=Kind.UNWRITTEN)
        elif one.state.upper() != "UP":
            yield failed(
                at,
                f"partition {one.name} is {one.state or 'without a state'}: no job starts there",
                f"when its reason no longer applies, on {head}: scontrol update partitionname={one.name} state=up",
                value=one.state,
                limit="UP",
                evidence="scontrol show partition",
            )
        elif changes := _changes(one, wanted, len(slurm.nodes or ())):
            yield failed(
                at,
                f"partition {one.name} differs from slurm.conf: {', '.join(changes)}",
                RESTORE.format(head),
                value=changes[0],
                evidence="scontrol show partition",
            )


def _reservations(view: View, slurm: Slurm, head: str) -> Iterator[Judgement]:
    """Report reservations only for root or Slurm's own user; others are normal use."""
    for one in slurm.reservations or ():
        users = {user for user in one.users.split(",") if user}
        if not one.active or one.accounts or not users or not users <= NOT_PEOPLE:
            continue
        yield failed(
            place("cluster", f"reservation {one.name}"),
            f"reservation {one.name} keeps {plural(one.node_count, 'host')} ({one.nodes}) for {one.users} until {one.ends}: no job of users starts there",
            f"scontrol show reservation {one.name} shows its owner; if it is no longer needed, on {head}: scontrol delete reservation {one.name}",
            value=one.node_count,
            unit="hosts",
            limit=0,
            evidence="scontrol show reservation",
        )


def _changes(one: SlurmPartition, wanted: Partition, nodes: int) -> list[str]:
    """Report state outside slurm.conf that blocks users or jobs."""
    said = one.settings
    found = [
        f"{key} is {said[key]}" for key, usual in OPEN.items() if said.get(key, usual) != usual
    ]
    if "MaxTime" in said and seconds(said["MaxTime"]) != seconds(wanted.max_time):
        found.append(f"MaxTime is {said['MaxTime']}, but the site sets {wanted.max_time}")
    default = "YES" if wanted.default else "NO"
    if said.get("Default", default) != default:
        found.append(f"Default is {said['Default']}")
    if said.get("MinNodes", "0") not in {"0", "1"}:
        found.append(f"MinNodes is {said['MinNodes']}")
    if nodes and one.nodes < nodes:
        found.append(f"it holds {one.nodes} of {nodes} hosts")
    return found


def seconds(time: str) -> int | None:
    """Return a time limit in Slurm's format in seconds; None without a limit."""
    found = TIME.fullmatch(time)
    if found is None:
        return None
    days, *rest = found.groups()
    numbers = [int(number) for number in rest if number is not None]
    if days is not None:
        hours, minutes, secs = [*numbers, 0, 0][:3]
        return ((int(days) * 24 + hours) * 60 + minutes) * 60 + secs
    if len(numbers) == 3:
        return (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]
    return numbers[0] * 60 + (numbers[1] if len(numbers) == 2 else 0)


def _accounts(view: View, slurm: Slurm, head: str) -> Iterator[Judgement]:
    if slurm.accounting is not True:
        return  # slurm.accounting says why
    if slurm.associations is None:
        yield not_assessed("cluster", view.facts[head].gap("slurm", "accounts were not read"))
        return
    rows = {(one.account, one.user): one for one in slurm.associations}
    if (TOP, "") not in rows:
        yield _emptied(view.site.slurm_options.cluster, head)
        return
    for account, users in accounts_of(view.site).items():
        lacking = [user for user in users if (account, user) not in rows]
        if (account, "") not in rows or lacking:
            yield _unknown(account, [] if (account, "") not in rows else lacking, head)
    held: dict[str, tuple[Association, str]] = {}
    charged = {TOP, *accounts_of(view.site)}
    for row in slurm.associations:
        quality = _quality(row, slurm)
        zero = [*row.zero, *slurm.qos.get(quality, ())]
        if row.account in charged and zero:
            held.setdefault(_holder(row, quality), (row, zero[0]))
    for who, (row, limit) in held.items():
        yield _held(who, row, limit, head)


def _emptied(cluster: str, head: str) -> Judgement:
    """Report a recreated table: slurmdbd creates it without the cluster's registration. Registering again keeps the jobs."""
    query = f"update cluster_table set deleted=1 where name='{cluster}'"
    return failed(
        place("cluster", "accounts"),
        f"the table of accounts of cluster {cluster} is empty (it was lost and recreated): every job is refused",
        f'on {head}: mysql slurm_acct_db -e "{query}"; systemctl restart slurmdbd; sleep 5; sacctmgr -i add cluster {cluster}; '
        f"then {DEPLOY} --stage slurm --hosts {head} --full adds the accounts; limits that were set by hand are lost",
        limit="slurm.accounts and base.users of the site",
        evidence="sacctmgr show assoc",
    )


def _unknown(account: str, users: list[str], head: str) -> Judgement:
    what = f"its user {users[0]}" if len(users) == 1 else f"{len(users)} of its users"
    lost = what if users else "the account"
    return failed(
        place("cluster", f"account {account}"),
        f"Slurm's accounting lacks {lost}{' of ' + account if users else ' ' + account}: jobs that charge it are refused",
        f"{DEPLOY} --stage slurm --hosts {head} --full adds it; limits that were set by hand are lost with it",
        names=tuple(users[:20]),
        kind=Kind.UNWRITTEN,
        limit="slurm.accounts and base.users of the site",
        evidence="sacctmgr show assoc",
    )


def _quality(row: Association, slurm: Slurm) -> str:
    """Return the QOS whose limits block the jobs of this association: the default one, or all; empty if none does.

    A limited QOS next to others is a choice of the site, such as one for jobs without GPUs.
    """
    usual = row.default_qos or (USUAL if USUAL in row.qos else "")
    if usual in slurm.qos:
        return usual
    return row.qos[0] if row.qos and all(name in slurm.qos for name in row.qos) else ""


def _holder(row: Association, quality: str) -> str:
    """Return whose limit blocks the jobs of this association."""
    if not row.zero:
        return f"QOS {quality}"
    return f"account {row.account}" + (f", user {row.user}" if row.user else "")


def _held(who: str, row: Association, limit: str, head: str) -> Judgement:
    modify = f"account {row.account}"
    if not row.zero:
        modify = who.replace("QOS", "qos")
    elif row.user:
        modify = f"user {row.user} where account={row.account}"
    # -1 removes a limit (sacctmgr(1)).
    name, _, value = limit.rpartition("=")
    unlimited = f"Flags-={value}" if name == "Flags" else f"{name}=-1"
    what = "its jobs stay pending, or are refused"
    if name.startswith("MinTRES"):
        what = "the cluster has less, so that its jobs stay pending, or are refused"
    if ":" in value and seconds(value):
        what = f"its jobs end after {seconds(value)} s; jobs that ask for more time stay pending"
    return failed(
        place("cluster", who),
        f"{who} has the limit {limit}: {what}",
        f"on {head}: sacctmgr -i modify {modify} set {unlimited}",
        value=limit,
        limit="no limit of 0, of less than 5 minutes, or of less than 100 MiB",
        evidence="sacctmgr show assoc, show qos",
    )


def _tried(view: View, slurm: Slurm) -> Iterator[Judgement]:
    is_for_jobs = bool(view.site.gpu_hosts_of(Owner.SLURM))
    for one in slurm.submissions or ():
        if one.refused and not is_for_jobs:
            cause = "no job can start: all GPU hosts belong to Kubernetes"
            yield not_assessed(
                place("cluster", f"partition {one.partition}", f"user {one.user}"),
                cause,
                fix="to give Slurm a host: appliance node assign HOST slurm",
                required=False,
            )
        elif one.refused:
            yield failed(
                place("cluster", f"partition {one.partition}", f"user {one.user}"),
                f"Slurm refuses a job of {one.user} in partition {one.partition}: {one.refused}",
                f"sbatch --test-only --partition={one.partition} --wrap=true as {one.user} shows the refusal; "
                "sacctmgr show assoc and scontrol show partition show limits and access",
                value="refused",
                limit="taken",
                evidence="sbatch --test-only",
            )


CHECKS: tuple[Check, ...] = (
    ClusterCheck(
        ids.SUBMIT,
        "Users' jobs are accepted",
        judge_submit,
        "The current state of partitions in slurmctld, accounts, users and limits in slurmdbd, and a test submission of up to 3 users of "
        "the site; nothing is started or queued. Usual causes: a partition that is DOWN, an account or QOS with a limit near "
        "0, or a new accounting database without accounts. A limited QOS that is not the default one is accepted.",
        limit=LIMIT,
        nature=Nature.SYMPTOM,
        causes=(
            UNASKED,
            NO_CONTROLLER,
            Cause(
                ids.ACCOUNTING,
                "accounts are in the database",
                Reach.SITE,
                lambda cause, effect: "database" not in cause.parts,
            ),
            Cause(
                ids.SUBMIT,
                "Slurm refuses the job for that reason",
                Reach.SITE,
                lambda cause, effect: (
                    cause.value != "refused"
                    and effect.value == "refused"
                    and (
                        effect.target.startswith(f"{cause.target},")
                        or "".join(cause.parts[:1]).startswith(OF_ALL)
                    )
                ),
            ),
            Cause(
                ids.CONTROLLER,
                "slurmctld judges jobs by other settings than those of the site",
                Reach.SITE,
                lambda cause, effect: "slurm.conf" in cause.parts and "user" in effect.target,
            ),
            Cause(
                ids.MUNGE,
                "a job is submitted through munge",
                Reach.SITE,
                lambda cause, effect: "user" in effect.target,
            ),
            Cause(
                ids.NODES,
                "no host accepts jobs",
                Reach.SITE,
                lambda cause, effect: "user" in effect.target,
            ),
        ),
    ),
)
