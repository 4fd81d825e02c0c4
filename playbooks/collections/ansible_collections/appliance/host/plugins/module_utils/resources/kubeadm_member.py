"""Whether this host is in a cluster, and bringing it in."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import ssl
import tempfile
import time
import urllib.request
from http.client import HTTPException
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.download import ended_after
from ansible_collections.appliance.host.plugins.module_utils.kubelet import last_words
from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of

MEMORY = "/run"
AUTHORITY = "/etc/kubernetes/pki/ca.crt"
CREDENTIALS = "/etc/kubernetes/kubelet.conf"
STATE = "/etc/kubernetes/manifests/etcd.yaml"
SUPER = "/etc/kubernetes/super-admin.conf"
PORT = 6443
PATIENCE = 5


def ca_hash(control: bool = False) -> str:
    """Digest of the authority's certificate, where this host has come through a join; a control plane has etcd then, too."""
    try:
        with open(AUTHORITY) as file:
            der = ssl.PEM_cert_to_DER_cert(file.read())
    except (OSError, ValueError):
        return ""
    through = (CREDENTIALS, STATE) if control else (CREDENTIALS,)
    return hashlib.sha256(der).hexdigest() if all(map(os.path.exists, through)) else ""


def ready(address: str) -> bool:
    """Whether the API of a control plane is ready; asked for its answer, not for its identity."""
    url = f"https://{address}:{PORT}/readyz"
    anybody = ssl._create_unverified_context()  # whoever joins checks it against the authority
    try:
        with ended_after(PATIENCE), urllib.request.urlopen(
            url, timeout=PATIENCE, context=anybody
        ) as answer:
            return bool(answer.status == 200)
    except (OSError, HTTPException, ValueError):
        return False


def access(given: dict[str, Any]) -> dict[str, Any]:
    """The kubeconfig with which a host joins as its own node."""

    def octets(pem: str) -> str:
        return base64.b64encode(pem.encode()).decode()

    cluster = {
        "server": f"https://{given['endpoint']}",
        "certificate-authority-data": octets(given["authority"]),
    }
    user = {
        "client-certificate-data": octets(given["certificate"]),
        "client-key-data": octets(given["key"]),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "joined", "cluster": cluster}],
        "users": [{"name": "joining", "user": user}],
        "contexts": [{"name": "joins", "context": {"cluster": "joined", "user": "joining"}}],
        "current-context": "joins",
    }


def document(given: dict[str, Any], kubeconfig: str = "") -> dict[str, Any]:
    """The JoinConfiguration. C(kubeconfig): the file of L(access); empty for a token."""
    token = {
        "apiServerEndpoint": given["endpoint"],
        "token": given["token"],
        "caCertHashes": [given["ca_hash"]],
    }
    found: dict[str, Any] = {
        "apiVersion": f"kubeadm.k8s.io/{given['api']}",
        "kind": "JoinConfiguration",
        "discovery": {"file": {"kubeConfigPath": kubeconfig}}
        if kubeconfig
        else {"bootstrapToken": token},
        "nodeRegistration": given["registration"],
    }
    if given["control_address"]:
        port = given["endpoint"].rpartition(":")[2]
        found["controlPlane"] = {
            "localAPIEndpoint": {
                "advertiseAddress": given["control_address"],
                "bindPort": int(port),
            },
            "certificateKey": given["certificate_key"],
        }
    return found


def _complaint(text: str) -> str:
    lines = [line.strip() for line in lines_of(text) if line.strip()]
    telling = [line for line in lines if "[ERROR" in line or line.startswith("error")]
    return (telling or lines or ["no reason given"])[0]


def _join(module: Any) -> None:
    socket = module.params["registration"].get("criSocket", "")
    left = ""
    if os.path.exists(AUTHORITY) or os.path.exists(CREDENTIALS):
        code, out, err = module.run_command(["kubeadm", "reset", "--force", "--cri-socket", socket])
        # What it could not remove may be in nobody's way; where it is, this is the reason.
        left = f", after kubeadm reset: {_complaint(err + out)}" if code else ""
    skip = module.params["skip"]
    flags = ["--skip-phases", ",".join(skip)] if skip else []
    with contextlib.ExitStack() as stack:
        kubeconfig = _written(stack, access(module.params)) if module.params["certificate"] else ""
        path = _written(stack, document(module.params, kubeconfig))
        code, out, err = module.run_command(["kubeadm", "join", "--config", path, *flags])
    if code:
        why = f"{_complaint(err + out)}{last_words(module.run_command)}"
        module.fail_json(msg=f"kubeadm join: {why}{left}")


def _written(stack: contextlib.ExitStack, content: dict[str, Any]) -> str:
    """A file in memory that only root can read, until the stack ends."""
    handle, path = tempfile.mkstemp(prefix="appliance-join-", dir=MEMORY)
    stack.callback(os.unlink, path)
    with os.fdopen(handle, "w") as file:
        json.dump(content, file)
    return path


def _desk(module: Any) -> str:
    desks, wait = module.params["desks"], module.params["wait"]
    end = time.monotonic() + wait
    while True:
        found = next(filter(ready, desks), "")
        if found or not wait or module.check_mode:
            return found
        if time.monotonic() > end:
            module.fail_json(
                msg=f"no control plane answers: {', '.join(desks)} (port {PORT}, /readyz)"
            )
        time.sleep(2)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {
            "state": {"choices": ["seen", "joined"], "required": True},
            "endpoint": {"default": ""},
            "api": {"default": "v1beta4"},
            "registration": {"type": "dict", "default": {}},
            "authority": {"default": ""},
            "certificate": {"default": ""},
            "key": {"default": "", "no_log": True},
            "token": {"default": "", "no_log": True},
            "ca_hash": {"default": ""},
            "certificate_key": {"default": "", "no_log": True},
            "control": {"type": "bool", "default": False},
            "control_address": {"default": ""},
            "desks": {"type": "list", "elements": "str", "default": []},
            "wait": {"type": "int", "default": 0},
            "skip": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    if module.params["state"] == "seen":
        seen = ca_hash(module.params["control"])
        made = os.path.exists(SUPER)
        module.exit_json(changed=False, ca_hash=seen, desk=_desk(module), super_admin=made)
    wanted = bool(module.params["token"] or module.params["certificate"])
    if wanted and not module.check_mode:
        _join(module)
    module.exit_json(changed=wanted)
