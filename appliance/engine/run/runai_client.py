"""The client of Run:ai's REST API that stage ``runai`` uses, and where its service account is stored.

Calls: NVIDIA Run:ai self-hosted 3.0, REST API, groups service-accounts, access-rules and clusters.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlencode

from appliance.adapters.runai import Account as Login
from appliance.adapters.runai import Runai, RunaiFailed, path_of
from appliance.config.secrets import Redactor
from appliance.engine.session import Session
from appliance.errors import ClusterFailed, ClusterRefused, ConfigError
from appliance.hidden import hide
from appliance.models.events import Message
from appliance.stages.runai.registration import Account, ClusterState, state_of
from appliance.stages.runai.values import options_of
from appliance.text import one_line

T = TypeVar("T")

CLUSTERS, ACCOUNTS = "/api/v1/clusters", "/api/v1/service-accounts"
ROLES, RULES = "/api/v2/authorization/roles", "/api/v1/authorization/access-rules"
STARTING = frozenset({0, 429, 500, 502, 503, 504})
"""Statuses of a control plane that starts, or that is not reached (0)."""
SECRET, FILE = "runai_client_secret", "secrets/runai_client_secret"


class Registrar:
    """See ControlPlane."""

    def __init__(self, login: Callable[[str, str], Runai]) -> None:
        """``login``: a client for a user's name and password."""
        self._login = login
        self._client: Runai | None = None

    def log_in(self, user: str, password: str) -> None:
        """See ControlPlane."""
        client = self._login(user, password)
        _asked(lambda: client.plain(ROLES, "roles", "log in"))
        self._client = client

    @property
    def client(self) -> Runai:
        """The client, after the login."""
        assert self._client is not None, "log_in comes first"
        return self._client

    def account(self, name: str, role: str, cluster: str) -> Account:
        """See ControlPlane."""
        return _asked(lambda: self._account(name, role, cluster))

    def cluster(self, name: str, domain: str) -> str:
        """See ControlPlane."""
        return _asked(lambda: self._cluster(name, domain))

    def bootstrap_token(self, cluster: str, version: str, url: str) -> str:
        """See ControlPlane."""
        query = urlencode({"version": version, "remoteClusterUrl": url})
        path = path_of("v1", "clusters", cluster, "cluster-install-info") + f"?{query}"
        return str(self._read(path, "get a bootstrap token")["bootstrapToken"])

    def state(self, cluster: str) -> ClusterState:
        """See ControlPlane."""
        path = path_of("v1", "clusters", cluster) + "?verbosity=full"
        found = self._read(path, "read the state of the cluster")
        return _asked(lambda: state_of(found))

    def _read(self, path: str, doing: str) -> dict[str, Any]:
        found = _asked(lambda: self.client.get(path, doing))
        if found is None:
            raise ClusterRefused(f"{doing}: Run:ai no longer has the cluster", "deploy again")
        return dict(found)

    def _account(self, name: str, role: str, cluster: str) -> Account:
        client, doing = self.client, f"create the service account {name}"

        def find() -> dict[str, Any] | None:
            return _named(client.plain(ACCOUNTS, "serviceAccounts", doing), name)

        found, is_new = find(), False
        if found is None:
            made, is_new = client.create(ACCOUNTS, doing, {"name": name}, find)
            found = dict(made)
        secret = found
        if not is_new:
            path = path_of("v1", "service-accounts", found["id"], "secret")
            secret = client.change("POST", path, f"renew the secret of {name}").document
        self._permit(found, role, cluster)
        return Account(str(found["clientId"]), str(secret["clientSecret"]))

    def _permit(self, account: dict[str, Any], role: str, cluster: str) -> None:
        """Give the account its role in the cluster, unless it has it."""
        client, doing = self.client, f"give the service account the role {role}"
        known = _named(client.plain(ROLES, "roles", doing), role)
        if known is None:
            raise ClusterRefused(f"Run:ai has no role {role}", "compare its roles in the console")
        scope = {"scopeType": "cluster", "scopeId": cluster}
        subject = {"subjectId": account["clientId"], "subjectType": "service-account"}
        rule = {**subject, **scope, "roleId": known["id"]}

        def find() -> dict[str, Any] | None:
            rules = client.every(RULES, "accessRules", doing, {"sortBy": "subjectId"})
            return next((dict(row) for row in rules if rule.items() <= row.items()), None)

        if find() is None:
            client.create(RULES, doing, rule, find)

    def _cluster(self, name: str, domain: str) -> str:
        client, doing = self.client, f"register the cluster {name}"

        def find() -> dict[str, Any] | None:
            return _named(client.plain(CLUSTERS, "clusters", doing), name)

        found = find()
        if found is None:
            made, _ = client.create(CLUSTERS, doing, {"name": name, "domain": domain}, find)
            found = dict(made)
        if found.get("domain") not in (None, "", domain):
            raise ConfigError(
                f"Run:ai has a cluster {name} of another domain: {one_line(str(found['domain']))}",
                "choose another name under scheduler.runai.cluster, or remove that cluster in Run:ai",
            )
        return str(found["uuid"])


def _named(rows: Any, name: str) -> dict[str, Any] | None:
    return next((dict(row) for row in rows if row.get("name") == name), None)


def _asked(ask: Callable[[], T]) -> T:
    """The result. Raises ClusterFailed or ClusterRefused, as ControlPlane promises."""
    try:
        return ask()
    except RunaiFailed as error:
        kind = ClusterFailed if error.status in STARTING else ClusterRefused
        raise kind(error.message, error.hint) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ClusterRefused(
            f"Run:ai answers in an unknown form: {type(error).__name__} {error}",
            "check that scheduler.runai.domain is that of a Run:ai control plane of 3.0",
        ) from error


def connect(session: Session) -> Registrar:
    """The client of the site's control plane."""
    options, _ = options_of(session.site)
    authority = session.folder / options.ca if options.ca else None

    def log_in(user: str, password: str) -> Runai:
        login = Login(options.address, "", password, authority, user)
        return Runai(login, hide=_hide)

    return Registrar(log_in)


def keep(session: Session) -> Callable[[Account], None] | None:
    """How a new service account is stored; None if the site has one."""
    file = session.folder / FILE
    if SECRET in session.site.secrets or file.exists():
        return None

    def store(account: Account) -> None:
        _hide(account.client_secret)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            file.parent.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(file, flags, 0o600), "w", encoding="utf-8") as out:
                out.write(account.client_secret)
        except OSError as error:
            raise ConfigError(
                f"{FILE} cannot be written ({error.strerror}), so the secret of Run:ai's service account is lost",
                "correct it, then run appliance deploy --stage runai: the account gets a new secret",
            ) from None
        text = (
            f"Run:ai's service account is stored. For queue apply, add to site.yml: client: {account.client_id} under scheduler.runai, "
            f"and {SECRET}: {{file: {FILE}}} under secrets"
        )
        session.tell(Message(text=text))

    return store


def _hide(secret: str) -> None:
    """From now on no output of this process contains it."""
    hide([secret], lambda known: Redactor(known).texts)
