"""What Prometheus would say of the GPUs of pods: the benchmark's own answer, in Prometheus's form and size."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

BUSY = "87"


@contextmanager
def prometheus(pods: list[tuple[str, str, int]]) -> Iterator[str]:
    """Its address: each GPU of these pods (namespace, name, GPUs) was at work all the time that is asked for."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            start, end, step = (int(asked[key][0]) for key in ("start", "end", "step"))
            times = [[when, BUSY] for when in range(start, end + 1, step)]
            known = "DCGM_FI_DEV_GPU_UTIL" in asked["query"][0]
            series = [
                {
                    "metric": {"namespace": space, "pod": name, "UUID": f"GPU-{name}-{n}"},
                    "values": times,
                }
                for space, name, gpus in (pods if known else ())
                for n in range(gpus)
            ]
            body = json.dumps({"status": "success", "data": {"result": series}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
