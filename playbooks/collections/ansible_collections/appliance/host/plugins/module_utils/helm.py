"""Helm 3.14 and newer, and Helm 4, by their command line: what is installed, and bringing it to what is asked."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from contextlib import contextmanager

from ansible_collections.appliance.host.plugins.module_utils.disk import sha256
from ansible_collections.appliance.host.plugins.module_utils.helm_causes import causes
from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of
from ansible_collections.appliance.host.plugins.module_utils.outcome import (
    Problem,
    os_reason,
    telling_line,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

OLDEST = (3, 14)
HISTORY = "10"
"""Revisions kept; Helm's own number."""
LOCKS = "/run/appliance-helm"
"""A folder of root's own: /run/lock is open to all users, who could make such a file, or hold its lock."""
STATE = "/var/cache/appliance/helm"
POLL_SECONDS = 5.0
SPARE_SECONDS = 60.0
"""Helm rolls back after its time is over, and that takes time too."""
ITEMS = '{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\\n"}{end}'
VOLUMES = (
    r"{range .items[*]}{.metadata.annotations.pv\.kubernetes\.io/provisioned-by} {.metadata.name}"
    '{"\\n"}{end}'
)
PENDING = ("pending-install", "pending-upgrade", "pending-rollback", "uninstalling")
SOUND = ("deployed", "superseded")
MOST_CAUSES = 3
"""Causes named in one line."""
ROLLS_BACK_3, ROLLS_BACK = "--atomic", "--rollback-on-failure"
FLAGS_OF_3 = ("--wait", ROLLS_BACK_3)
FLAGS_AT_ONCE = ("--server-side=false",)
FLAGS = ("--wait=legacy", ROLLS_BACK, *FLAGS_AT_ONCE)
"""Helm 4 waits for conditions some operators leave as they are for ever (KAI 0.12), and applies on the server by default, where
operators' own changes are conflicts: both are told to be as before.
"""
EMPTY = {"apiVersion": "v1", "kind": "Config"}
_VERSION = re.compile(r"v(\d+)\.(\d+)")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.\d+)? ?(Z|[+-]\d\d:?\d\d)?")
_GONE = re.compile(r'\(NotFound\): (\S+) "([^"]+)"')
_UNKNOWN_KIND = re.compile(r'no matches for kind "([^"]+)"')


class Wanted:
    """A release as it shall be."""

    def __init__(
        self,
        name: str,
        namespace: str,
        chart: str,
        version: str,
        values: dict[str, Any],
        timeout: int,
        waits: bool = True,
        rolls_back: bool = True,
    ) -> None:
        self.name = name
        self.namespace = namespace
        self.chart = chart
        self.version = version
        self.values = values
        self.timeout = timeout
        self.waits = waits
        self.rolls_back = rolls_back

    @property
    def title(self) -> str:
        """The chart as Helm lists it."""
        return f"{self.chart}-{self.version}"


class Revision:
    """One entry of a release's history."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.number = int(entry["revision"])
        self.status = str(entry["status"])
        self.chart = str(entry["chart"])
        self.began = stamp(str(entry.get("updated", "")))


class Found:
    """A release as it is; ``abandoned``: its newest revision was begun and never ended."""

    def __init__(self, revisions: list[Revision]) -> None:
        self.revisions = revisions
        self.last = revisions[-1] if revisions else None
        self.sound = next((r for r in reversed(revisions) if r.status in SOUND), None)

    @property
    def revision(self) -> int:
        """The newest revision; 0 where there is none."""
        return self.last.number if self.last else 0

    @property
    def abandoned(self) -> bool:
        """Whether somebody began and did not end."""
        return self.last is not None and self.last.status in PENDING


def stamp(text: str) -> float:
    """Seconds since the epoch; 0 for what is no time."""
    found = _STAMP.match(text)
    if not found:
        return 0.0
    import calendar

    day, clock, zone = found.groups()
    seconds = calendar.timegm(time.strptime(f"{day} {clock}", "%Y-%m-%d %H:%M:%S"))
    if zone and zone != "Z":
        sign = 1 if zone[0] == "+" else -1
        seconds -= sign * (int(zone[1:3]) * 3600 + int(zone[-2:]) * 60)
    return float(seconds)


def plain(title: str) -> str:
    """Without the v before a version: some charts are published with one that their own Chart.yaml lacks."""
    return re.sub(r"-v(?=\d)", "-", title)


def differences(wanted: Wanted, found: Found, helm: Helm) -> list[str]:
    """What is not as asked, in words and without a value."""
    if found.last is None:
        return ["not installed"]
    said = []
    if found.last.status != "deployed":
        said.append(f"revision {found.last.number} is {found.last.status}")
    if plain(found.last.chart) != plain(wanted.title):
        said.append(f"chart {found.last.chart}, not {wanted.title}")
    if said:
        return said
    values = helm.values(wanted)
    said += [f"value {path}" for path in sorted(_paths(values, wanted.values))]
    return said + [f"{kind} is gone" for kind in helm.gone(wanted)]


def _paths(found: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Where two trees of values differ."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in {*found, *wanted}:
            below = f"{path}.{key}" if path else str(key)
            yield from _paths(found.get(key), wanted.get(key), below)
    elif found != wanted:
        yield path


class Helm:
    """Helm on one cluster. ``run`` is AnsibleModule's."""

    def __init__(self, run: Callable[..., Any], program: str, kubeconfig: str) -> None:
        self._run = run
        self._program = program
        self._kubeconfig = kubeconfig
        self._lock = -1
        self._note = ""
        self.major = self._major()

    def _major(self) -> int:
        remedy = "appliance deploy --stage kubernetes brings Helm 3.14 or newer; an offline source has it in bin/helm"
        try:
            _, out, err = self._run([self._program, "version", "--short"], handle_exceptions=False)
        except OSError as error:
            raise Problem(f"{self._program} does not run ({os_reason(error)}): {remedy}") from error
        found = _VERSION.search(out)
        if not found:
            why = telling_line(err or out) or "it names no version"
            raise Problem(f"{self._program} does not run ({why}): {remedy}")
        version = (int(found.group(1)), int(found.group(2)))
        if version < OLDEST:
            raise Problem(f"{self._program} is Helm {found.group(0)}: 3.14 or newer is needed")
        return version[0]

    def _helm(
        self, words: list[str], namespace: str, data: str | None = None
    ) -> tuple[int, str, str]:
        # A program that outlives its deployer keeps the lock, so that the next run waits for it.
        known = [f"--kubeconfig={self._kubeconfig}", "--namespace", namespace]
        homes = {f"HELM_{kind}_HOME": f"{STATE}/{kind.lower()}" for kind in ("CACHE", "CONFIG", "DATA")}  # fmt: skip
        answer: tuple[int, str, str] = self._run(
            [self._program, *words, *known],
            environ_update=homes,
            pass_fds=[self._lock] if self._lock >= 0 else None,
            data=data,
        )
        return answer

    @contextmanager
    def alone(self, wanted: Wanted, wait: bool) -> Iterator[None]:
        """Nobody else of ours works on the release. The lock is the kernel's: it ends with who holds it."""
        os.makedirs(LOCKS, mode=0o700, exist_ok=True)
        self._note = f"{LOCKS}/appliance-helm.{wanted.namespace}.{wanted.name}"
        self._lock = os.open(self._note, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._take(wanted, wait)
            yield
        finally:
            os.close(self._lock)
            self._lock = -1

    def _take(self, wanted: Wanted, wait: bool) -> None:
        end = time.monotonic() + wanted.timeout + SPARE_SECONDS
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if not wait:
                    return
                if time.monotonic() > end:
                    raise Problem(
                        f"an earlier run still works on release {wanted.name}, and does not end"
                    ) from None
                time.sleep(POLL_SECONDS)

    def history(self, wanted: Wanted) -> Found:
        """What is installed."""
        words = ["history", wanted.name, "--max", HISTORY, "--output", "json"]
        code, out, err = self._helm(words, wanted.namespace)
        if code and "release: not found" in err:
            return Found([])
        try:
            if code == 0:
                entries = [Revision(entry) for entry in json.loads(out)]
                return Found(sorted(entries, key=lambda r: r.number))
        except (ValueError, KeyError, TypeError):
            err = "helm history prints something else than its revisions"
        raise Problem(f"release {wanted.name} cannot be looked at: {telling_line(err or out)}")

    def settled(self, wanted: Wanted, wait: bool) -> Found:
        """The same, when nobody works on it any more: neither a run of ours nor somebody at another machine."""
        while True:
            found = self.history(wanted)
            if not wait or not found.abandoned or self._ours(found):
                return found
            if found.last is None:
                raise AssertionError("an abandoned release has a revision")
            if time.time() - found.last.began > wanted.timeout + SPARE_SECONDS:
                return found
            time.sleep(POLL_SECONDS)

    def _ours(self, found: Found) -> bool:
        """Whether a run of ours, which no longer works since we hold its lock, began the newest revision."""
        with open(self._note) as file:
            return file.read().strip() == str(found.revision)

    def values(self, wanted: Wanted) -> dict[str, Any]:
        """What was given when it was installed."""
        words = ["get", "values", wanted.name, "--output", "json"]
        code, out, err = self._helm(words, wanted.namespace)
        try:
            if code == 0:
                return json.loads(out) or {}
        except ValueError:
            err = "helm get values prints no JSON"
        raise Problem(f"the values of release {wanted.name} cannot be read: {telling_line(err)}")

    def gone(self, wanted: Wanted) -> list[str]:
        """Objects of the release that somebody deleted."""
        code, manifest, err = self._helm(["get", "manifest", wanted.name], wanted.namespace)
        if code:
            raise Problem(f"the manifest of {wanted.name} cannot be read: {telling_line(err)}")
        if not re.search(r"^kind:|\"kind\":", manifest, re.M):
            return []
        words = ["get", "--filename", "-", "--output", "name"]
        code, _, err = self._kubectl(words, data=manifest, home=self._home(wanted))
        lost = [f"{kind} {name}" for kind, name in _GONE.findall(err)]
        lost += [f"the kind {kind}" for kind in _UNKNOWN_KIND.findall(err)]
        if code and not lost:
            raise Problem(f"the objects of {wanted.name} cannot be looked at: {telling_line(err)}")
        return lost

    def _home(self, wanted: Wanted) -> str:
        """A file that makes the release's namespace the one of objects that name none, as Helm has it.

        With ``--namespace`` kubectl refuses objects of another one, and charts have such. It names the credentials, no more.
        """
        code, out, err = self._kubectl(["config", "view", "--minify", "--output", "json"])
        try:
            known = json.loads(out)["contexts"][0]["context"] if not code else None
        except (ValueError, LookupError, TypeError):
            known = None
        if not isinstance(known, dict):
            why = telling_line(err) or "it names no context"
            raise Problem(f"{self._kubeconfig} cannot be read: {why}")
        os.makedirs(STATE, mode=0o700, exist_ok=True)
        path = os.path.join(STATE, f"{wanted.namespace}.context")
        context = {"name": "release", "context": {**known, "namespace": wanted.namespace}}
        with open(path, "w") as file:
            json.dump({**EMPTY, "current-context": "release", "contexts": [context]}, file)
        return path

    def recover(self, wanted: Wanted, found: Found) -> None:
        """Clear away what Helm would refuse to go on from."""
        if found.last is None or (not found.abandoned and found.sound):
            return
        if found.sound is None:
            # Nothing of it has ever worked: Helm takes no upgrade of it, so it is begun anew.
            self.remove(wanted)
            return
        # Helm keeps each revision in a secret; without the one that never ended, the last sound one is the newest.
        secret = f"sh.helm.release.v1.{wanted.name}.v{found.last.number}"
        words = ["delete", "secret", secret, "--ignore-not-found", "--namespace", wanted.namespace]
        code, out, err = self._kubectl(words)
        if code:
            raise Problem(f"secret {secret} cannot be deleted: {telling_line(err or out)}")

    def remove(self, wanted: Wanted) -> None:
        """Take the release away, with all Helm made of it."""
        words = ["uninstall", wanted.name, "--wait", "--timeout", f"{wanted.timeout}s"]
        code, out, err = self._helm(words, wanted.namespace)
        if code and "not found" not in err:
            why = telling_line(err or out)
            raise Problem(f"what is left of release {wanted.name} cannot be removed: {why}")

    def held(self, holders: list[str], driver: str) -> list[str]:
        """What people still have of a release: resources of these kinds, volumes of this driver."""
        found = [name for kind in holders for name in self._rows(kind, ITEMS)]
        volumes = (
            [row.split() for row in self._rows("persistentvolumes", VOLUMES)] if driver else []
        )
        return found + [f"volume {row[1]}" for row in volumes if len(row) == 2 and row[0] == driver]

    def _rows(self, kind: str, path: str) -> list[str]:
        words = ["get", kind, "--all-namespaces", "--output", f"jsonpath={path}"]
        code, out, err = self._kubectl(words)
        if code and "doesn't have a resource type" not in err:
            raise Problem(f"{kind} cannot be listed: {telling_line(err or out)}")
        return [line.strip() for line in lines_of(out) if line.strip()] if not code else []

    def fetch(self, wanted: Wanted, chart: str, repository: str, pinned: str, folder: str) -> str:
        """The archive of a chart in a folder, which is the one pinned. Raises Problem."""
        words = ["pull", chart, "--version", wanted.version, "--destination", folder]
        words += ["--repo", repository] if repository else []
        code, out, err = self._helm(words, wanted.namespace)
        archives = [name for name in os.listdir(folder) if name.endswith(".tgz")]
        if code or len(archives) != 1:
            raise Problem(f"{wanted.title} cannot be fetched: {reason(err or out)}")
        path = os.path.join(folder, archives[0])
        if (found := sha256(path)) != pinned:
            raise Problem(
                f"{wanted.title} is another archive than the one pinned: its sha256 is {found}"
            )
        return path

    @contextmanager
    def folder(self, wanted: Wanted) -> Iterator[str]:
        """An empty folder for what is fetched; what a killed run left there goes first."""
        path = os.path.join(STATE, "fetched", f"{wanted.namespace}.{wanted.name}")
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path, mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def bring(self, wanted: Wanted, place: str, repository: str) -> None:
        """Install or upgrade, and go back where that fails. Values are told by standard input; JSON is YAML."""
        self._remember(wanted)
        words = ["upgrade", wanted.name, place, "--install", "--create-namespace", "--reset-values"]
        words += ["--version", wanted.version, "--values", "-", "--history-max", HISTORY]
        words += ["--timeout", f"{wanted.timeout}s", *self._flags(wanted)]
        if repository:
            words += ["--repo", repository]
        code, out, err = self._helm(words, wanted.namespace, json.dumps(wanted.values))
        if not code:
            return
        now = self.history(wanted)
        if now.last is not None and now.last.status == "deployed":
            back = f"{now.last.chart} is back"
        elif now.last is None:
            back = "nothing of it is left"
        else:
            back = f"revision {now.last.number} is {now.last.status}"
        said = self._causes(wanted) or reason(err or out)
        raise Problem(f"{wanted.title} was not installed, {back}: {said}")

    def _flags(self, wanted: Wanted) -> tuple[str, ...]:
        """How it is installed; one that is not waited for is not rolled back either."""
        waiting, at_once = (FLAGS, FLAGS_AT_ONCE) if self.major >= 4 else (FLAGS_OF_3, ())
        if not wanted.waits:
            return at_once
        if wanted.rolls_back:
            return waiting
        return tuple(flag for flag in waiting if flag not in (ROLLS_BACK, ROLLS_BACK_3))

    def _causes(self, wanted: Wanted) -> str:
        """Why its objects are not ready, for a release that was left as it is."""
        if wanted.rolls_back:
            return ""
        words = ["get", "persistentvolumeclaims,pods", "--namespace", wanted.namespace]
        code, out, _ = self._kubectl([*words, "--output", "json"])
        try:
            found = causes(json.loads(out)["items"]) if not code else []
        except (ValueError, LookupError, TypeError, AttributeError):
            found = []
        more = f"; and {len(found) - MOST_CAUSES} more" if len(found) > MOST_CAUSES else ""
        return "; ".join(found[:MOST_CAUSES]) + more

    def clear(self, wanted: Wanted, jobs: list[str]) -> None:
        """Delete jobs of hooks that an earlier attempt left; their names are taken otherwise. Raises Problem."""
        if not jobs:
            return
        words = ["delete", "jobs", *jobs, "--ignore-not-found", "--namespace", wanted.namespace]
        code, out, err = self._kubectl(words)
        if code and "(NotFound)" not in err:
            raise Problem(f"jobs of {wanted.name} cannot be deleted: {telling_line(err or out)}")

    @contextmanager
    def logged_in(self, wanted: Wanted, chart: str, url: str, login: list[str]) -> Iterator[str]:
        """The chart's name in a repository with a login, which Helm forgets at the end. The password goes by standard input."""
        user, password = login
        name = f"appliance-{wanted.name}"
        words = ["repo", "add", name, url, "--username", user, "--password-stdin", "--force-update"]
        code, out, err = self._helm(words, wanted.namespace, password)
        try:
            if code:
                raise Problem(f"{url} does not accept the login: {reason(err or out)}")
            yield f"{name}/{chart}"
        finally:
            self._helm(["repo", "remove", name], wanted.namespace)

    def _remember(self, wanted: Wanted) -> None:
        number = self.history(wanted).revision + 1
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{number}\n".encode(), 0)

    def _kubectl(
        self, words: list[str], data: str | None = None, home: str = ""
    ) -> tuple[int, str, str]:
        known = ["kubectl", "--kubeconfig", self._kubeconfig, "--request-timeout", "60s"]
        where = {}
        if home:
            # Of several files the first that has a setting wins; the option would be the only file.
            known, where = ["kubectl", *known[3:]], {"KUBECONFIG": f"{home}:{self._kubeconfig}"}
        answer: tuple[int, str, str] = self._run([*known, *words], data=data, environ_update=where)
        return answer


def reason(said: str) -> str:
    """Why Helm failed: what it wrote as its error, on one line."""
    lines = [line.strip() for line in lines_of(said) if line.strip()]
    errors = [line for line in lines if line.startswith("Error:")]
    chosen = " ".join(lines[lines.index(errors[-1]) :]) if errors else telling_line(said)
    return re.sub(r"^Error: (UPGRADE FAILED: |INSTALLATION FAILED: )?", "", chosen)[:400]
