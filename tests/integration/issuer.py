"""An issuer of tokens on loopback, as OpenID Connect wants one: its description, its keys, and tokens signed by them. Nobody logs in here."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from appliance.adapters import process

CLIENT = "kubernetes"


@dataclass(frozen=True)
class Issuer:
    """``folder``: of its certificate and key, ``cert.pem`` and ``key.pem``."""

    url: str
    folder: Path

    def token(self, key: Path | None = None, **claims: Any) -> str:
        """A token of an hour; ``claims`` in place of its own, ``key``: another than its own to sign with."""
        now = int(time.time())
        own = {"iss": self.url, "aud": CLIENT, "sub": "1", "iat": now, "exp": now + 3600}
        parts = ({"alg": "RS256", "typ": "JWT", "kid": "1"}, {**own, **claims})
        words = ".".join(encoded(json.dumps(part).encode()) for part in parts)
        (self.folder / "words").write_text(words)
        made = self.folder / "signature"
        argv = ["openssl", "dgst", "-sha256", "-sign", str(key or self.folder / "key.pem")]
        process.run((*argv, "-out", str(made), str(self.folder / "words")))
        return f"{words}.{encoded(made.read_bytes())}"


@contextmanager
def issuing(folder: Path, port: int) -> Iterator[Issuer]:
    """At work on this port, over TLS by the certificate of ``folder``."""
    url = f"https://127.0.0.1:{port}"
    argv = ("openssl", "rsa", "-in", str(folder / "key.pem"), "-noout", "-modulus")
    modulus = bytes.fromhex(process.run(argv).stdout.strip().partition("=")[2])
    key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1"}
    pages = {
        "/.well-known/openid-configuration": {
            "issuer": url,
            "jwks_uri": f"{url}/keys",
            "authorization_endpoint": f"{url}/auth",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        },
        "/keys": {"keys": [{**key, "n": encoded(modulus), "e": "AQAB"}]},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = pages.get(self.path)
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Issuer(url, folder)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def encoded(data: bytes) -> str:
    """As tokens have it: for URLs, without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
