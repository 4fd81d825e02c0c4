"""Run:ai: its charts and pods, the cluster as its control plane sees it, and the certificate that it serves."""

from collections.abc import Iterator

from appliance.checks.causes import UNASKED, Cause, Reach
from appliance.checks.check import (
    Check,
    ClusterCheck,
    Nature,
    View,
    failed,
    not_assessed,
    passed,
    warned,
)
from appliance.models.result import CLUSTER, Judgement
from appliance.stages.kubernetes.causes import NO_API
from appliance.stages.kubernetes.charts import Release
from appliance.stages.runai import ids, releases
from appliance.stages.runai.registration import CONNECTED
from appliance.stages.runai.values import wanted
from appliance.stages.scheduler.checks import judge_pods, judge_releases, scheduler_facts

DAY_S = 86400.0
SOON_S = 21 * DAY_S
"""Own choice: time to order a certificate; authorities that renew by program do it a month before its end."""
SILENT_S = 300.0
"""Own choice: how often the agent reports is not documented."""
DEPLOY = "appliance deploy --stage runai"


def _wanted(view: View) -> tuple[Release, ...]:
    """The two releases under the names that Helm has them by; none if another program installs Run:ai."""
    if not wanted(view.site):
        return ()
    made = (
        releases.control_plane(view.site, view.profile),
        releases.cluster(view.site, view.profile),
    )
    return tuple(one.model_copy(update={"name": releases.RELEASES[one.name]}) for one in made)


def _named(installed: tuple[Release, ...]) -> set[tuple[str, str]]:
    return {(one.namespace, one.name) for one in installed}


def _releases(view: View) -> Iterator[Judgement]:
    installed = _wanted(view)
    _, known, _ = scheduler_facts(view)
    there = {(one.namespace, one.name) for one in (known.releases or ())} if known else set()
    if installed and known and known.releases is not None and not _named(installed) & there:
        yield not_assessed(CLUSTER, "Run:ai is not installed yet", fix=DEPLOY)
        return
    for judged in (*judge_releases(view, installed), *judge_pods(view, installed)):
        told = dict(judged.told)
        if told.get("fix") == "appliance deploy":
            told["fix"] = DEPLOY
        yield judged._replace(told=told)


def _connected(view: View) -> Iterator[Judgement]:
    options = view.site.scheduler.runai if view.site.scheduler else None
    found = view.runai
    if options is None:
        return
    if found is None:
        why = "the site names no service account of Run:ai"
        fix = "set scheduler.runai.client and secrets.runai_client_secret (docs/runai.md)"
        yield not_assessed(CLUSTER, why, fix=fix)
    elif found.api != "ok":
        yield failed(CLUSTER, found.api, found.fix, limit=CONNECTED)
    elif found.state != CONNECTED:
        cause = f"Run:ai reports {found.state or 'no state'}"
        more = f": {found.cause}" if found.cause else ""
        fix = "kubectl -n runai get pods; kubectl -n runai logs deployment/runai-agent"
        yield failed(CLUSTER, f"{cause}{more}", fix, value=found.state, limit=CONNECTED)
    elif found.silent_s is not None and found.silent_s > SILENT_S:
        cause = f"Run:ai last heard from the cluster {found.silent_s:.0f} s ago"
        fix = "kubectl -n runai logs deployment/runai-agent"
        yield warned(CLUSTER, cause, fix, value=found.silent_s, unit="s", limit=SILENT_S)
    elif (expected := _version(view)) and found.version and found.version != expected:
        cause = f"the cluster engine is {found.version}, the control plane's release is {expected}"
        yield failed(CLUSTER, cause, DEPLOY, value=found.version, limit=expected)
    else:
        yield passed(CLUSTER, found.state, limit=CONNECTED, evidence=found.version)


def _version(view: View) -> str:
    made = _wanted(view)
    return made[0].version or "" if made else ""


def _certificate(view: View) -> Iterator[Judgement]:
    options = view.site.scheduler.runai if view.site.scheduler else None
    if options is None:
        return
    left = view.runai.certificate_s if view.runai else None
    fix = f"renew the certificate of {options.host}, then {DEPLOY}"
    if left is None:
        why = view.runai.api if view.runai and view.runai.api != "ok" else "it was not read"
        yield not_assessed(CLUSTER, why)
    elif left <= 0:
        yield failed(CLUSTER, f"it ended {-left / DAY_S:.0f} days ago", fix, value=0, unit="days")
    elif left < SOON_S:
        days = left / DAY_S
        cause = f"it ends in {days:.0f} days"
        yield warned(CLUSTER, cause, fix, value=round(days), unit="days", limit=SOON_S / DAY_S)
    else:
        yield passed(CLUSTER, round(left / DAY_S), unit="days", limit=SOON_S / DAY_S)


CHECKS: tuple[Check, ...] = (
    ClusterCheck(
        ids.RELEASES,
        "Both charts of Run:ai are installed, and their pods are ready",
        _releases,
        "The releases runai-backend and runai-cluster are deployed at the version of the site. All pods in their namespaces are ready, "
        "among them the databases, which need their volumes, and the agent.",
        "the pinned version",
        nature=Nature.SYMPTOM,
        causes=(UNASKED, NO_API),
    ),
    ClusterCheck(
        ids.CONNECTED,
        "Run:ai sees the cluster",
        _connected,
        "This machine asks Run:ai's control plane for the state of the cluster, with the site's service account. The state must be "
        "Connected. The cluster engine must have the version of the control plane, and must have reported within five minutes.",
        CONNECTED,
        nature=Nature.SYMPTOM,
        causes=(
            Cause(ids.RELEASES, "a pod that is not ready does not report", Reach.SITE),
            Cause(ids.CERTIFICATE, "the agent does not trust it", Reach.SITE),
        ),
    ),
    ClusterCheck(
        ids.CERTIFICATE,
        "Run:ai's certificate is valid for three weeks",
        _certificate,
        "The certificate that the control plane serves to this machine. When it ends, users, the agent and this program are refused.",
        "21 days",
        nature=Nature.SYMPTOM,
    ),
)
