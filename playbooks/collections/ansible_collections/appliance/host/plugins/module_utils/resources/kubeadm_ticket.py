"""What one host needs to join, for minutes; runs on a control plane."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import ssl
import tempfile
import time
from secrets import token_hex
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.lines import lines_of

ADMIN = "/etc/kubernetes/admin.conf"
AUTHORITY = "/etc/kubernetes/pki/ca.crt"
LIFE = "15m0s"
LIFE_S = 15 * 60
PATIENCE_S = 60
"""The cluster's controller signs within a second."""
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
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


def signing_request(name: str, request: str) -> str:
    """The request for a certificate of minutes, as the cluster takes it. C(request): in PEM."""
    return json.dumps({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(request.encode()).decode(),
            "signerName": SIGNER,
            "expirationSeconds": LIFE_S,
            "usages": ["digital signature", "client auth"],
        },
    })  # fmt: skip


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
        return self.give_token() if self.module.params["control"] else self.give_certificate()

    def give_certificate(self) -> dict[str, Any]:
        """A certificate of minutes with the rights of this node. With a token, a host could get the certificate of any node."""
        node = self.module.params["node"]
        # Any node may make requests: it could take a name that it knows, and this host would not join.
        name = f"appliance-{node}-joins-{token_hex(8)}"
        key, request = self.key_for(node)
        self.said(*KUBECTL, "create", "-f", "-", data=signing_request(name, request))
        try:
            self.said(*KUBECTL, "certificate", "approve", name)
            signed = self.signed(name)
        finally:
            self.forget_request(name)
        with open(AUTHORITY) as file:
            authority = file.read()
        return {"authority": authority, "certificate": signed, "key": key}

    def key_for(self, node: str) -> tuple[str, str]:
        """A new private key, and a request of that node for it; both in PEM."""
        handle, path = tempfile.mkstemp(prefix="appliance-key-", dir=MEMORY)
        os.close(handle)
        try:
            request = self.said(
                "openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-keyout", path, "-subj", f"/O=system:nodes/CN=system:node:{node}",
            )  # fmt: skip
            with open(path) as file:
                return file.read(), request
        finally:
            os.unlink(path)

    def signed(self, name: str) -> str:
        """The certificate in PEM, once the cluster's controller has signed it."""
        until = time.monotonic() + PATIENCE_S
        ask = ("get", "certificatesigningrequest", name, "-o", "jsonpath={.status.certificate}")
        while not (found := self.said(*KUBECTL, *ask)):
            if time.monotonic() > until:
                why = "look at kube-controller-manager, and whether the key of the cluster's authority is on the control hosts"
                self.module.fail_json(
                    msg=f"the cluster signed no certificate within {PATIENCE_S} s: {why}"
                )
            time.sleep(0.5)
        return base64.b64decode(found).decode()

    def forget_request(self, name: str) -> None:
        """Delete a request; its certificate ends by itself."""
        self.run(*KUBECTL, "delete", "certificatesigningrequest", name, "--ignore-not-found")

    def give_token(self) -> dict[str, Any]:
        """What a control plane needs; it holds the authority's key afterwards, so its token can be of any rights."""
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

    def said(self, *argv: str, data: str | None = None) -> str:
        """What a program printed. Its failure ends the module; its output may hold a token and is not told."""
        code, out, err = self.run(*argv, data=data)
        if code:
            lines = [line for line in lines_of(err.strip()) if line] or ["no reason given"]
            self.module.fail_json(msg=f"{argv[0]}: {lines[-1]}")
        return out.strip()

    def run(self, *argv: str, data: str | None = None) -> tuple[int, str, str]:
        """A program, to its end; C(data) is its input."""
        answer: tuple[int, str, str] = self.module.run_command(
            list(argv), data=data, environ_update={"LC_ALL": "C", "ETCDCTL_API": "3"}
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
