"""The console in a browser of this machine: textual-serve on loopback, behind a token, with Host and Origin checked.

Its own page is not used, because it loads a font from another server.
"""

import hmac
import html
import secrets
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web
from textual_serve.server import Server

from appliance.errors import ApplianceError

HERE = "127.0.0.1"
MOST = 4
"""Browsers at once: each has a process of its own, which reads the hosts."""
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<link rel="stylesheet" href="/static/css/xterm.css">
<style>
@font-face {{ font-family: "Roboto Mono"; src: url("/static/fonts/RobotoMono-VariableFont_wght.ttf"); }}
body {{ margin: 0; background: #000; color: #ccc; font-family: monospace; }}
#terminal {{ width: 100vw; height: 100vh; }}
.end {{ display: none; padding: 1em; }}
body.-closed .end {{ display: block; }}
body.-closed #terminal {{ display: none; }}
</style>
<script src="/static/js/textual.js"></script></head>
<body><p class="end">The session has ended. Reload the page to open another.</p>
<div id="terminal" class="textual-terminal" data-session-websocket-url="{socket}" data-font-size="16"></div>
</body></html>
"""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Loopback(Server):
    """One site's console on ``port`` of loopback. ``token``: new for each start."""

    def __init__(self, words: Sequence[str], port: int, name: str) -> None:
        super().__init__(shlex.join(words), host=HERE, port=port, title=name)
        self.token = secrets.token_urlsafe(32)
        self._cookie = f"appliance-{port}"
        self._open = 0

    @property
    def address(self) -> str:
        """What a person opens; the token is in it."""
        return f"{self.public_url}/?token={self.token}"

    async def _make_app(self) -> web.Application:
        # A method cannot carry the mark that aiohttp sets.
        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._guarded(request, handler)

        app = web.Application(middlewares=[guard])
        app.add_routes(
            [
                web.get("/", self.handle_index),
                web.get("/ws", self.handle_websocket),
                web.static("/static", self.statics_path),
            ]
        )
        app.on_response_prepare.append(self._harden)
        return app

    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuses what another page, name or user of this machine sends."""
        if request.headers.getall("Host", []) != [f"{HERE}:{self.port}"]:
            raise web.HTTPForbidden(text="unknown Host\n")
        origins = request.headers.getall("Origin", [])
        if origins != [self.public_url] and (origins or request.path == "/ws"):
            raise web.HTTPForbidden(text="unknown Origin\n")
        if request.path == "/" and self._is_token(request.query.get("token", "")):
            # The token leaves the address line, and with it history and screenshots.
            found = web.HTTPSeeOther("/")
            found.set_cookie(self._cookie, self.token, httponly=True, samesite="Strict")
            raise found
        if not self._is_token(request.cookies.get(self._cookie, "")):
            raise web.HTTPForbidden(text="open the address that appliance console printed\n")
        return await handler(request)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    async def _harden(self, _: web.Request, response: web.StreamResponse) -> None:
        response.headers["Content-Security-Policy"] = (
            "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
            f"font-src 'self'; img-src 'self' data:; connect-src ws://{HERE}:{self.port}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Cache-Control"] = "no-store"

    async def handle_index(self, _: web.Request) -> web.Response:
        """The page of the terminal."""
        socket = f"ws://{HERE}:{self.port}/ws"
        text = PAGE.format(name=html.escape(self.title), socket=socket)
        return web.Response(text=text, content_type="text/html")

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """A console of its own for each browser."""
        if self._open >= MOST:
            raise web.HTTPServiceUnavailable(text="too many browsers\n")
        self._open += 1
        try:
            answer: web.WebSocketResponse = await super().handle_websocket(request)
        finally:
            self._open -= 1
        return answer


def serve(arguments: Sequence[str], port: int, name: str, tell: Callable[[str], object]) -> None:
    """Serves ``appliance ARGUMENTS`` until the user interrupts. ``tell`` gets the address, which opens the console.

    Raises ApplianceError if the port is in use.
    """
    # -P: another user may have put a package of this name into the current folder.
    server = Loopback((sys.executable, "-P", "-m", "appliance", *arguments), port, name)

    def started(*_: object) -> None:
        tell(server.address)

    try:
        # No access log: the first request has the token.
        web.run_app(
            server._make_app(),
            host=HERE,
            port=port,
            access_log=None,
            print=started,
        )
    except OSError as error:
        raise ApplianceError(
            f"port {port} of {HERE} cannot be used ({error.strerror})",
            "choose another port for --web",
        ) from None
