"""What one host needs to join, for minutes; runs on a control plane."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import ssl
import tempfile
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of

ADMIN = "/etc/kubernetes/admin.conf"
AUTHORITY = "/etc/kubernetes/pki/ca.crt"
LIFE = "15m0s"
MEMORY = "/run"
PKI = "/etc/kubernetes/pki/etcd"
ETCDCTL = (
    "etcdctl", "--endpoints=https://127.0.0.1:2379", f"--cacert={PKI}/ca.crt",
    f"--cert={PKI}/healthcheck-client.crt", f"--key={PKI}/healthcheck-client.key",
)  # fmt: skip
KUBECTL = ("kubectl", "--kubeconfig", ADMIN, "--request-timeout", "20s")


def public_key_hash(pem: str) -> str:
    """The digest kubeadm pins an authority by, of its public key in PEM."""
    body = "".join(line for line in lines_of(pem) if line and not line.startswith("-----"))
    return "sha256:" + hashlib.sha256(base64.b64decode(body)).hexdigest()


class Member(NamedTuple):
    """A member of etcd."""

    number: str
    name: str
    address: str


def members(said: str) -> list[Member]:
    """The members C(etcdctl member list) prints, one a line: number, state, name, addresses."""
    rows = (line.split(", ") for line in lines_of(said))
    return [Member(row[0], row[2], str(urlsplit(row[3]).hostname)) for row in rows if len(row) > 3]


def purpose(node: str) -> str:
    """What a host's token is described by."""
    return f"appliance: {node} joins"


def tokens_for(node: str, secrets: str) -> list[str]:
    """Public halves of a host's tokens, of the cluster's list of such Secrets."""
    found = [item.get("data") or {} for item in json.loads(secrets)["items"]]
    wanted = base64.b64encode(purpose(node).encode()).decode()
    return [
        base64.b64decode(data["token-id"]).decode()
        for data in found
        if data.get("description") == wanted and "token-id" in data
    ]


def sealed_by(documents: str, key: str) -> str:
    """kubeadm's documents with the key for the shared certificates."""
    kind = "kind: InitConfiguration\n"
    return documents.replace(kind, f"{kind}certificateKey: {key}\n", 1)


class Desk:
    """Gives tickets out and takes them back."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def give(self) -> dict[str, Any]:
        """Everything one host needs to join."""
        node = self.module.params["node"]
        token = lines_of(self.said(
            "kubeadm", "--kubeconfig", ADMIN, "token", "create", "--ttl", LIFE,
            "--description", purpose(node),
        ))[-1].strip()  # fmt: skip
        key = self.said("openssl", "x509", "-pubkey", "-noout", "-in", AUTHORITY)
        found = {
            "token": token,
            "token_id": token.partition(".")[0],
            "ca_hash": public_key_hash(key),
        }
        if self.module.params["control"]:
            self.forget(node)
            found["certificate_key"] = self.seal(found["ca_hash"])
        return found

    def seal(self, pinned: str) -> str:
        """Leave the certificates control planes share in the cluster. All who join get the same key: each upload replaces the last."""
        secret = self.module.params["encryption_key"].encode()
        key = hmac.new(secret, f"certificates {pinned}".encode(), hashlib.sha256).hexdigest()
        with open(self.module.params["config"]) as file:
            text = sealed_by(file.read(), key)
        handle, path = tempfile.mkstemp(prefix="appliance-upload-", dir=MEMORY)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text)
            self.said(
                "kubeadm", "init", "phase", "upload-certs", "--upload-certs", "--config", path
            )
        finally:
            os.unlink(path)
        return key

    def forget(self, node: str) -> None:
        """Take the host's former self out of etcd and the cluster; etcd admits no member while another of its name is missing."""
        for member in members(self.said(*ETCDCTL, "member", "list")):
            if node == member.name or self.module.params["address"] == member.address:
                self.said(*ETCDCTL, "member", "remove", member.number)
        self.run(*KUBECTL, "delete", "node", node, "--ignore-not-found", "--wait=false")
        gone = ("--ignore-not-found", "--force", "--grace-period=0", "--wait=false")
        self.run(*KUBECTL, "-n", "kube-system", "delete", "pod", f"etcd-{node}", *gone)

    def left(self) -> list[str]:
        """Public halves of the tokens this host was given by runs that were cut off. They end by themselves where nobody can ask."""
        ask = ("get", "secrets", "--field-selector", "type=bootstrap.kubernetes.io/token")
        code, out, _ = self.run(*KUBECTL, "-n", "kube-system", *ask, "-o", "json")
        return [] if code else tokens_for(self.module.params["node"], out)

    def take(self, *tokens: str) -> None:
        """Delete what was given; what is gone already is good."""
        for token in filter(None, tokens):
            self.run("kubeadm", "--kubeconfig", ADMIN, "token", "delete", token)

    def unshare(self) -> None:
        """Delete the certificates that were left for a control plane."""
        if self.module.params["control"]:
            delete = (
                "-n",
                "kube-system",
                "delete",
                "secret",
                "kubeadm-certs",
                "--ignore-not-found",
            )
            self.run(*KUBECTL, *delete)

    def lost(self) -> bool:
        """Whether the cluster has no node of this name."""
        code, _, err = self.run(*KUBECTL, "get", "node", self.module.params["node"], "-o", "name")
        return bool(code) and "NotFound" in err

    def own_authority(self) -> str:
        """Digest of this cluster's authority."""
        with open(AUTHORITY) as file:
            return hashlib.sha256(ssl.PEM_cert_to_DER_cert(file.read())).hexdigest()

    def said(self, *argv: str) -> str:
        """What a program printed. Its failure ends the module; its output may hold a token and is not told."""
        code, out, err = self.run(*argv)
        if code:
            lines = [line for line in lines_of(err.strip()) if line] or ["no reason given"]
            self.module.fail_json(msg=f"{argv[0]}: {lines[-1]}")
        return out.strip()

    def run(self, *argv: str) -> tuple[int, str, str]:
        """A program, to its end."""
        answer: tuple[int, str, str] = self.module.run_command(
            list(argv), environ_update={"LC_ALL": "C", "ETCDCTL_API": "3"}
        )
        return answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {
            "node": {"required": True},
            "state": {"choices": ["present", "absent"], "default": "present"},
            "member_of": {"default": ""},
            "control": {"type": "bool", "default": False},
            "address": {"default": ""},
            "config": {"type": "path", "default": ""},
            "encryption_key": {"default": "", "no_log": True},
            "token_id": {"default": "", "no_log": False},
        },
        supports_check_mode=True,
    )
    desk = Desk(module)
    if module.check_mode:
        module.exit_json(changed=False, lost=False)
    if module.params["state"] == "absent":
        desk.take(module.params["token_id"])
        desk.unshare()
        module.exit_json(changed=False, lost=False)
    left = desk.left()
    desk.take(*left)
    if module.params["member_of"] == desk.own_authority():
        module.exit_json(changed=bool(left), lost=desk.lost())
    module.exit_json(changed=True, lost=False, **desk.give())
