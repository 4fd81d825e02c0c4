"""The stand-in with tokens of a real Keycloak: the administrator's login, ``queue apply``, a revoked token, wrong secrets. By hand.

    unzip keycloak-quarkus-dist-26.7.3.zip       # org.keycloak:keycloak-quarkus-dist of Maven; needs Java 17
    python -m tests.support.runai.by_keycloak realm > keycloak-26.7.3/data/import/runai-realm.json
    keycloak-26.7.3/bin/kc.sh start-dev --import-realm --http-host 127.0.0.1 --http-port 18080 &
    python -m tests.support.runai.by_keycloak http://127.0.0.1:18080

Run:ai's control plane has a Keycloak with realm runai (reference of 2.21). Keycloak issues each token, and judges each token that a
request has. The stand-in passes forms to it, and adds the client of the console to logins by password.
"""

import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3

from appliance.adapters.runai import Account, Runai
from appliance.engine.run.runai_client import Registrar
from appliance.errors import ApplianceError
from tests.support.runai.organisation import Site, organised, ran
from tests.support.runai.shapes import Json, Refused
from tests.support.runai.user import FORM
from tests.support.runai.world import World

CONSOLE, CLIENT, SECRET = "runai-cli", "appliance", "a-secret-of-the-trial"
AUDIENCE = {
    "name": "audience",
    "protocol": "openid-connect",
    "protocolMapper": "oidc-audience-mapper",
    "config": {"included.client.audience": CLIENT, "access.token.claim": "true"},
}
"""Keycloak 26 judges tokens only for clients in their audience."""
REALM = {
    "realm": "runai",
    "enabled": True,
    "users": [
        {
            "username": World.administrator,
            "email": World.administrator,
            "firstName": "First",
            "lastName": "Administrator",
            "enabled": True,
            "credentials": [{"type": "password", "value": World.password, "temporary": False}],
        }
    ],
    "clients": [
        {
            "clientId": CONSOLE,
            "publicClient": True,
            "directAccessGrantsEnabled": True,
            "protocolMappers": [AUDIENCE],
        },
        {
            "clientId": CLIENT,
            "serviceAccountsEnabled": True,
            "secret": SECRET,
            "protocolMappers": [AUDIENCE],
        },
    ],
}


@dataclass
class KeycloakWorld(World):
    """``issuer``: address of Keycloak. ``tokens_of``: each token it gave, in order; ``asked``: how often it judged one."""

    issuer: str = ""
    tokens_of: list[str] = field(default_factory=list)
    asked: int = 0

    def post(self, name: str, **form: str) -> tuple[int, Any]:
        """A call of the realm's OpenID Connect protocol."""
        url = f"{self.issuer}/realms/runai/protocol/openid-connect/{name}"
        kind = {"Content-Type": FORM}
        answer = urllib3.request("POST", url, body=urlencode(form), headers=kind)
        return answer.status, json.loads(answer.data) if answer.data else None

    def granted(self, form: Json) -> tuple[int, Json]:
        """See World."""
        console = {"client_id": CONSOLE} if form.get("grant_type") == "password" else {}
        status, answer = self.post("token", **{**console, **form})
        if status == 200:
            self.tokens_of.append(answer["access_token"])
        return status, answer

    def subject(self, bearer: str) -> str:
        """See World; Keycloak judges the token."""
        self.asked += 1
        own = {"client_id": CLIENT, "client_secret": SECRET}
        _, answer = self.post("token/introspect", token=bearer, **own)
        if not answer.get("active"):
            raise Refused(401, "token is invalid or has expired")
        person = answer["client_id"] == CONSOLE
        return str(answer["username"] if person else answer["client_id"])

    def revoke(self) -> None:
        """End the newest token."""
        self.post("revoke", token=self.tokens_of[-1], client_id=CLIENT, client_secret=SECRET)


def renamed(site: Site) -> None:
    """The site's service account becomes the client that Keycloak knows."""
    old, _ = site.account
    for kind, key in (("service-accounts", "clientId"), ("access-rules", "subjectId")):
        for stored in site.stand_in.world.tables[kind].values():
            if stored.body[key] == old:
                stored.body[key] = CLIENT
    site.head = site.head.replace(old, CLIENT)
    (site.folder / "secrets/runai_client_secret").write_text(SECRET)


def refused(site: Site, password: str) -> str:
    """What the first administrator's login ends with."""
    authority = site.folder / "cert.pem"

    def log_in(user: str, words: str) -> Runai:
        return Runai(Account(site.stand_in.url, "", words, authority, user))

    registrar = Registrar(log_in)
    try:
        registrar.log_in(World.administrator, password)
    except ApplianceError as error:
        return error.message
    registrar.cluster("second", "runai.example.com")
    return ""


def main() -> None:
    """The realm, or the trial."""
    if sys.argv[1] == "realm":
        sys.stdout.write(json.dumps(REALM))
        return
    world = KeycloakWorld(issuer=sys.argv[1])
    with tempfile.TemporaryDirectory() as name, organised(Path(name), world) as site:
        assert refused(site, World.password) == ""
        assert "does not accept the password" in refused(site, "wrong")
        renamed(site)
        site.write("\n  departments: [{name: research}]\n")
        before = len(world.tokens_of)
        site.stand_in.plant("act", "POST", "departments", call=world.revoke)
        assert ran(site, "apply", "--yes") == 0
        assert site.names("departments")["research"] == 1
        assert len(world.tokens_of) == before + 2
        assert ran(site, "plan", "--detailed-exitcode") == 0
        (site.folder / "secrets/runai_client_secret").write_text("wrong")
        assert ran(site, "plan") == 1
    sys.stdout.write(f"{len(world.tokens_of)} tokens issued, {world.asked} judged by Keycloak\n")


if __name__ == "__main__":
    main()
