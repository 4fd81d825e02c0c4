"""The rate of the storage itself: the same bytes are read in order, by one reader and by many, and discarded."""

from __future__ import annotations

import mmap
import os
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from appliance.benchmarks.model_load.host.apart import Unable

PIECE = 8 << 20
READERS = (1, 16)
CONNECTIONS = 64


def read_file(path: Path, readers: int) -> dict[str, Any]:
    """Each reader reads one part of the file, without the page cache if the file system supports it."""
    size = path.stat().st_size
    share = -(-size // readers // PIECE) * PIECE
    file, direct = _opened(path)

    def read(begin: int) -> int:
        buffer = mmap.mmap(-1, PIECE)
        ends = min(begin + share, size)
        return sum(os.preadv(file, [buffer], at) for at in range(begin, ends, PIECE))

    try:
        seconds, total = _timed(read, range(0, size, share), readers)
    finally:
        os.close(file)
    return _rate(seconds, total, size, direct)


def _opened(path: Path) -> tuple[int, bool]:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECT), True
    except OSError:
        return os.open(path, os.O_RDONLY), False


def read_object(url: str, readers: int) -> dict[str, Any]:
    """Each reader requests one range of the object with boto3."""
    at, s3 = urlsplit(url), client()
    named = {"Bucket": at.netloc, "Key": at.path.lstrip("/")}
    size = s3.head_object(**named)["ContentLength"]
    share = -(-size // readers)

    def read(begin: int) -> int:
        ends = min(begin + share, size) - 1
        body = s3.get_object(**named, Range=f"bytes={begin}-{ends}")["Body"]
        return sum(map(len, body.iter_chunks(1 << 20)))

    return _rate(*_timed(read, range(0, size, share), readers), size, False)


def client() -> Any:
    """boto3's own search for keys and address; buckets in the path, as servers within a site have them."""
    config = import_module("botocore.config").Config(
        s3={"addressing_style": "path"},
        max_pool_connections=CONNECTIONS,
        connect_timeout=10,
        retries={"max_attempts": 2},
    )
    return import_module("boto3").client("s3", config=config)


def _timed(read: Any, begins: range, readers: int) -> tuple[float, int]:
    began = time.monotonic()
    with ThreadPoolExecutor(readers) as pool:
        total = sum(pool.map(read, begins))
    return time.monotonic() - began, total


def _rate(seconds: float, total: int, size: int, direct: bool) -> dict[str, Any]:
    if total != size:
        raise Unable(f"{total} of {size} bytes could be read")
    return {"seconds": seconds, "direct": direct}
