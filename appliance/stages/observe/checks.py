"""Checks the monitoring: every host is scraped, all alert rules are loaded, no alert fires."""

from collections.abc import Iterable

from appliance.alerts import ALERTS, WITHOUT_SLURM
from appliance.checks.causes import (
    SILENT,
    UNASKED,
    Cause,
    Reach,
    both,
    is_of,
    is_unknown,
    names_only,
)
from appliance.checks.check import (
    ALL_ROLES,
    Check,
    ClusterCheck,
    HostCheck,
    Nature,
    View,
    failed,
    not_assessed,
    passed,
    warned,
)
from appliance.models.facts import HostFacts
from appliance.models.gap import Gap
from appliance.models.result import Judgement, Place, place
from appliance.models.site import Host, Role
from appliance.stages.base import ids as base_ids
from appliance.stages.base.causes import OWN_FOLDER, unit_failed
from appliance.stages.base.checks.neighbours import removal
from appliance.stages.observe import ids, silences
from appliance.stages.observe.facts import Observe, Target
from appliance.stages.observe.variables import DCGM_EXPORTER, GRAFANA
from appliance.stages.slurm import ids as slurm_ids
from appliance.stages.units import revived

NO_PROMETHEUS = Cause(
    ids.SERVER,
    "only Prometheus has them",
    Reach.SITE,
    both(is_unknown, is_of("prometheus")),
)
NODE_PORT = 9100


def same(check: str, *names: str) -> Cause:
    """Return the cause that explains alerts of these names by a check of the same fault."""
    return Cause(check, "the alert reports the same", Reach.SITE, names_only(*names))


EXPORTER = "prometheus-node-exporter.service"
SERVER = "prometheus.service"
SOCKET = "appliance-prometheus.socket"
TELLER = "prometheus-alertmanager.service"
UNITS = (EXPORTER, DCGM_EXPORTER, SERVER, SOCKET, TELLER, GRAFANA)
JOBS = {
    "node": "the node exporter",
    "prometheus": "Prometheus itself",
    "alertmanager": "Alertmanager",
}
UNIT_OF = {"node": EXPORTER, "prometheus": SERVER, "alertmanager": TELLER}
PORT_OF = {SERVER: 9090, SOCKET: 9090, TELLER: 9093, EXPORTER: 9100}
UNDELIVERED = "AlertsUndelivered"
DEPLOY = "appliance deploy --stage observe"


def judge_targets(view: View) -> Iterable[Judgement]:
    """Pass if every host's node exporter and Prometheus itself are targets that are up."""
    server, seen = _server(view)
    if server is None or seen is None:
        yield _silent(view, server)
        return
    if seen.waiting and not seen.targets:
        cause = "Prometheus has just started and has not read its targets yet"
        yield not_assessed("cluster", cause, fix=_later(server))
        return
    known = {(target.job, target.instance): target for target in seen.targets}
    wanted = [("node", host.name) for host in view.site.hosts] + [("prometheus", server.name)]
    wanted += [("alertmanager", server.name)] if view.site.observe.receivers else []
    for job, name in wanted:
        yield _target(view, job, name, known.get((job, name)))


def _target(view: View, job: str, name: str, target: Target | None) -> Judgement:
    what = JOBS[job]
    where = name if job == "node" else place(name, job)
    if target is None:
        cause = f"{what} is not a target of Prometheus"
        head = view.site.with_role(Role.CONTROL)[0].name
        fix = f"on {head}: systemctl restart prometheus, which reads its file; if that does not help: {DEPLOY}"
        return failed(where, cause, fix)
    if target.health == "up":
        return passed(where, "up", evidence=what)
    if target.health == "unknown":
        return not_assessed(where, f"{what} has not been scraped yet")
    cause = f"Prometheus cannot reach {what}: {target.error or target.health}"
    fix = removal(name, view.facts.get(name), NODE_PORT) if job == "node" else ""
    fix = (
        fix
        or f"on {name}: systemctl status {EXPORTER}; then port 9100 there, which is open only to the control host's address in site.yml"
    )
    if job != "node":
        fix = f"on {name}: journalctl -u {UNIT_OF[job]}"
    return failed(where, cause, fix, value=target.health, limit="up")


def judge_rules(view: View) -> Iterable[Judgement]:
    """Pass if all alert rules of the appliance are loaded; a site may add its own."""
    server, seen = _server(view)
    if server is None or seen is None:
        yield _silent(view, server)
        return
    wanted = len(ALERTS if view.site.slurm else WITHOUT_SLURM)
    common = {"unit": "rules", "limit": wanted, "limit_source": "role observe"}
    if seen.rules >= wanted:
        yield passed("cluster", seen.rules, **common)
        return
    fix = f"on {server.name}: promtool check config /etc/prometheus/prometheus.yml; systemctl restart prometheus; then {DEPLOY}"
    cause = f"Prometheus has {seen.rules} of {wanted} valid alert rules"
    yield failed("cluster", cause, fix, value=seen.rules, **common)


def judge_alerts(view: View) -> Iterable[Judgement]:
    """Warn for each firing alert, with its name."""
    server, seen = _server(view)
    if server is None or seen is None:
        yield _silent(view, server)
        return
    if not seen.firing and not seen.rules:
        cause = "Prometheus has no alert rule (observe.rules)"
        yield not_assessed("cluster", cause)
        return
    if not seen.firing and seen.waiting:
        cause = f"Prometheus has not evaluated {seen.waiting} of {seen.rules} alert rules yet"
        yield not_assessed("cluster", cause, fix=_later(server))
        return
    if not seen.firing:
        yield passed("cluster", 0, unit="alerts", limit=0)
        return
    cause = f"firing: {', '.join(seen.firing)}"
    fix = (
        f"ssh -L 9090:127.0.0.1:9090 root@{server.address}; then http://127.0.0.1:9090/alerts shows "
        "the hosts, with remedy and runbook of each alert"
    )
    told = {"value": len(seen.firing), "unit": "alerts", "limit": 0, "names": seen.firing}
    yield warned("cluster", cause, fix, **told)


def judge_receivers(view: View) -> Iterable[Judgement]:
    """Pass if Alertmanager has the site's receivers, gets Prometheus's alerts, and delivers them."""
    wanted = sorted(receiver.name for receiver in view.site.observe.receivers)
    if not wanted:
        return
    server, seen = _server(view)
    if server is None or seen is None:
        yield _silent(view, server)
        return
    if seen.told is None and "observe" in view.facts[server.name].errors:
        yield _silent(view, server)
        return
    if seen.told is None:
        cause = f"Alertmanager does not answer on {server.name}: no alerts are delivered"
        yield failed("cluster", cause, f"on {server.name}: journalctl -u {TELLER}; then {DEPLOY}")
        return
    common = {"unit": "receivers", "limit": len(wanted), "limit_source": "observe.receivers"}
    value = len(set(wanted) & set(seen.told))
    if missing := [name for name in wanted if name not in seen.told]:
        cause = f"Alertmanager has no receiver {', '.join(missing)}"
        yield failed("cluster", cause, DEPLOY, value=value, names=missing, **common)
    elif not seen.sends:
        cause = "Prometheus sends its alerts to no Alertmanager"
        yield failed("cluster", cause, DEPLOY, value=0, **common)
    elif UNDELIVERED in seen.firing:
        cause = "Alertmanager cannot deliver alerts"
        fix = "to find the receiver and the reason, run appliance validate alerts"
        yield failed("cluster", cause, fix, value=0, **common)
    elif seen.waiting:
        cause = f"Prometheus has not evaluated {seen.waiting} of {seen.rules} alert rules yet"
        yield not_assessed("cluster", cause, fix=_later(server))
    else:
        yield passed("cluster", value, **common)


def judge_silences(view: View) -> Iterable[Judgement]:
    """Pass if no silence suppresses all alerts, those of a whole host, or one of them for months."""
    if not view.site.observe.receivers:
        return
    server, seen = _server(view)
    if server is None or seen is None:
        yield _silent(view, server)
        return
    yield from silences.judge(view, server, seen.silences)


def judge_exporter(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if the node exporter runs and is enabled at boot."""
    del view
    yield _runs(host.name, facts, EXPORTER)


def judge_server(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if Prometheus, its socket in the management network and Alertmanager run and are enabled at boot."""
    if host != next(iter(view.site.with_role(Role.CONTROL))):
        return
    tellers = (TELLER,) if view.site.observe.receivers else ()
    for name in (SERVER, SOCKET, *tellers):
        yield _runs(place(host.name, name.partition(".")[0]), facts, name)


def _runs(at: Place | str, facts: HostFacts, name: str) -> Judgement:
    unit = facts.units.get(name)
    if unit is None or unit.active == "unknown":
        why = facts.gap("units", f"the state of {name} was not read")
        return not_assessed(at, why)
    common: dict[str, object] = {"limit": "active", "limit_source": "role observe"}
    if unit.active == "active" and unit.enabled in {"enabled", ""}:
        return passed(at, unit.active, **common)
    cause = f"{name} is {unit.active}, {unit.enabled or unit.load}"
    for one in facts.held_ports:
        if one.port == PORT_OF.get(name):
            cause = f"port {one.port} is held by {one.program} (process {one.process}), so that {name} cannot start"
            end = f"kill {one.process}; sleep 2"
            if one.process == 1:
                end = f"systemctl list-sockets shows the unit with :{one.port}; systemctl disable --now UNIT"
            fix = f"on {facts.host}: if no one needs it: {end}; systemctl reset-failed {name}; systemctl restart {name}"
            return failed(at, cause, fix, value=unit.active, names=(one.program,), **common)
    fix = revived(unit, name, facts.host, f"on {facts.host}: journalctl -u {name}; then {DEPLOY}")
    return failed(at, cause, fix, value=unit.active, **common)


def _later(server: Host) -> str:
    return f"try again in a minute; if it persists, on {server.name}: journalctl -u {SERVER}"


def _server(view: View) -> tuple[Host | None, Observe | None]:
    """Return the first control host, and its facts of Prometheus."""
    control = view.site.with_role(Role.CONTROL)
    if not control:
        return None, None
    facts = view.facts.get(control[0].name)
    return control[0], facts.observe if facts else None


def _silent(view: View, server: Host | None) -> Judgement:
    if server is None:
        return not_assessed("cluster", "the site has no control host")
    facts = view.facts.get(server.name)
    if facts is None:
        why = Gap(f"{server.name} did not answer", (server.name,))
        return not_assessed("cluster", why)
    why = facts.gap("observe", f"Prometheus does not answer on {server.name}")
    fix = f"on {server.name}: journalctl -u prometheus.service; then {DEPLOY}"
    return not_assessed("cluster", why, fix=fix)


CHECKS: tuple[Check, ...] = (
    ClusterCheck(
        id=ids.TARGETS,
        title="Prometheus scrapes every host",
        judge=judge_targets,
        explain="The targets of Prometheus on the first control host. A missing host was added after the stage ran there. A target that is down has "
        "a stopped exporter or a closed port 9100, or the host is off.",
        limit="up: every host, Prometheus itself, and Alertmanager where the site has receivers",
        causes=(
            SILENT,
            UNASKED,
            Cause(ids.EXPORTER, "without an exporter nothing can be scraped"),
            NO_PROMETHEUS,
        ),
    ),
    ClusterCheck(
        id=ids.RULES,
        title="Alert rules are loaded",
        judge=judge_rules,
        explain="The appliance's rules that Prometheus has loaded and can evaluate; the site's own rules do not count. If there are fewer than the "
        "role wrote, the file was changed, or Prometheus still runs with an older configuration.",
        limit="the rules of role observe",
        causes=(
            UNASKED,
            NO_PROMETHEUS,
        ),
    ),
    HostCheck(
        id=ids.EXPORTER,
        title="The node exporter runs",
        roles=ALL_ROLES,
        judge=judge_exporter,
        explain="The unit of the node exporter is active and starts at boot. Usual cause of a failure: its address, the host's in the management "
        "network, does not exist.",
        limit="active, and enabled at boot",
        explains=(unit_failed("prometheus-node-exporter"),),
    ),
    HostCheck(
        id=ids.SERVER,
        title="Prometheus runs",
        roles=frozenset({Role.CONTROL}),
        judge=judge_server,
        explain="The units of Prometheus, of its socket in the management network and, if the site has receivers, of Alertmanager are active on the "
        "first control host and start at boot. Usual causes of a failure of Prometheus: its disk is full, or its data is damaged.",
        limit="active, and enabled at boot",
        causes=(OWN_FOLDER,),
        explains=(unit_failed("prometheus"), unit_failed("prometheus-alertmanager")),
    ),
    ClusterCheck(
        id=ids.RECEIVERS,
        title="Alerts reach the site's receivers",
        judge=judge_receivers,
        explain="The receivers in Alertmanager, and the Alertmanager that Prometheus uses. Delivery is tested by appliance validate alerts. A "
        "failed delivery raises an alert of its own, which fails this check. A site without observe.receivers is not checked.",
        limit="the site's receivers, and nothing undelivered",
        causes=(
            UNASKED,
            NO_PROMETHEUS,
            Cause(
                ids.SERVER,
                "only Alertmanager delivers alerts",
                Reach.SITE,
                is_of("prometheus-alertmanager"),
            ),
        ),
    ),
    ClusterCheck(
        id=ids.SILENCES,
        title="No silence suppresses too much",
        nature=Nature.SYMPTOM,
        judge=judge_silences,
        explain="The silences of Alertmanager. A silence without an alert name and without host names fails. It is a warning if a silence suppresses all "
        f"alerts of a host, or lasts more than {silences.LONGEST_DAYS:.0f} days, or if all silences together suppress more than {silences.MANY} kinds of alerts. "
        "The finding shows its author, its end and the command that ends it. A pattern counts as a name only if it consists of names "
        "separated by |. A site without observe.receivers is not checked.",
        limit="an alert by its name, for at most 30 days",
        causes=(
            UNASKED,
            NO_PROMETHEUS,
            Cause(
                ids.SERVER,
                "only Alertmanager has them",
                Reach.SITE,
                both(is_unknown, is_of("prometheus-alertmanager")),
            ),
        ),
    ),
    ClusterCheck(
        id=ids.ALERTS,
        title="No alert fires",
        judge=judge_alerts,
        explain="Alerts that are firing. Here they are a warning: the check of their area decides whether the appliance is healthy. Each alert "
        "contains its remedy.",
        limit="0 firing; more warn",
        causes=(
            UNASKED,
            same("host.reachable", "HostDown"),
            same(base_ids.DISK, "FilesystemFull", "FilesystemFilling", "InodesGone"),
            same(base_ids.CLOCK, "ClockOff"),
            same(slurm_ids.WATCH, "HostUnfitAndKept"),
            same(ids.RECEIVERS, UNDELIVERED),
            NO_PROMETHEUS,
            same(ids.TARGETS, "HostDown"),
            same(base_ids.FAILED_UNITS, "UnitFailed"),
        ),
    ),
)
