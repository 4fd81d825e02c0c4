"""The program's own kubeconfig: a token of its service account, valid for a day and renewed in time."""

from __future__ import annotations

import json
import os
import subprocess  # noqa: TID251 - this program runs on hosts and has its own door
import time

from appliance.limits.api import Api
from appliance.limits.cluster import HOME
from appliance.limits.trouble import Trouble

ADMIN = "/etc/kubernetes/admin.conf"
FILE = "/var/lib/appliance/limits/kubeconfig"
LIFE_S = 86400
ACCOUNT = f"/api/v1/namespaces/{HOME}/serviceaccounts/{HOME}"
ENDPOINT = "{.clusters[0].cluster.server} {.clusters[0].cluster.certificate-authority-data}"


def renew(file: str = FILE, admin: str = ADMIN) -> str:
    """Create a token if there is none, half its lifetime is over, or the cluster refuses it; return what was done. Raises Trouble."""
    if _is_good(file):
        return "good for hours yet"
    kubectl = ["kubectl", "--kubeconfig", admin, "--request-timeout", "20s"]
    if _run([*kubectl, "get", "--raw", ACCOUNT], missing=True) is None:
        return "waits for appliance queue apply, which makes the service account"
    wish = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    asked = json.dumps({**wish, "spec": {"expirationSeconds": LIFE_S}})
    said = _run([*kubectl, "create", "--raw", f"{ACCOUNT}/token", "-f", "-"], asked)
    place = _run(
        [*kubectl, "config", "view", "--raw", "--minify", "--flatten", "-o", f"jsonpath={ENDPOINT}"]
    )
    try:
        server, authority = (place or "").split()
        token = json.loads(said or "")["status"]["token"]
    except (ValueError, KeyError, TypeError):
        raise Trouble(
            f"kubectl gave no token, or {admin} names no server with its authority"
        ) from None
    _write(file, server, authority, token)
    return "made anew"


def _is_good(file: str) -> bool:
    try:
        age = time.time() - os.stat(file).st_mtime  # noqa: PTH116
    except OSError:
        return False
    if not 0 <= age < LIFE_S / 2:
        return False
    try:
        return Api(file).get(f"/api/v1/namespaces/{HOME}/configmaps") is not None
    except Trouble:
        return False


def _run(argv: list[str], given: str = "", *, missing: bool = False) -> str | None:
    try:
        done = subprocess.run(
            argv,
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Trouble(
            f"{argv[0]}: {getattr(error, 'strerror', None) or type(error).__name__}"
        ) from None
    if done.returncode == 0:
        return done.stdout
    if missing and "NotFound" in done.stderr:
        return None
    lines = (done.stderr.strip() or "no reason given").split("\n")
    raise Trouble(f"kubectl: {lines[-1][:300]}")


def _write(file: str, server: str, authority: str, token: str) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": HOME,
        "contexts": [{"name": HOME, "context": {"cluster": HOME, "user": HOME}}],
        "clusters": [
            {"name": HOME, "cluster": {"server": server, "certificate-authority-data": authority}}
        ],
        "users": [{"name": HOME, "user": {"token": token}}],
    }
    fresh = os.open(file + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fresh, "w", encoding="utf-8") as opened:
        opened.write(json.dumps(document) + "\n")
    os.replace(file + ".new", file)  # noqa: PTH105
