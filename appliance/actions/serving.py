"""Validate serving: the key and files it is given, and a server asked from this machine without a site."""

import os
from pathlib import Path

from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.serving import run, tables, vllm
from appliance.benchmarks.serving.judge import judge
from appliance.benchmarks.serving.reference import tables as published
from appliance.benchmarks.serving.request import Request
from appliance.config.reading import TooLarge, read_bytes
from appliance.errors import ConfigError
from appliance.models.run import Table
from appliance.ownership import require

NAME = "serving"
VARIABLE = "OPENAI_API_KEY"
MOST_BYTES = 64 << 20


def measure_here(request: Request) -> Outcome:
    """What the server answers this machine; limits are a site's, so none is judged."""
    return run.ask(request, {})


def read_results(file: Path) -> Outcome:
    """What ``vllm bench serve`` wrote. Raises ConfigError."""
    try:
        model, figure = vllm.read(read_bytes(file, MOST_BYTES).decode("utf-8"))
    except TooLarge:
        raise ConfigError(f"{file}: larger than 64 MiB") from None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        hint = "give the file that vllm bench serve --save-result wrote"
        raise ConfigError(f"{file}: {error}", hint) from None
    results = tuple(judge([figure], {}))
    measured = tuple(tables.measurements([figure], {"file": file.name, "model": model}, False))
    return Outcome(results, measured, (tables.table([figure], model or "a model", file.name),))


def published_tables() -> tuple[Table, ...]:
    """The papers' tables as printed, with doubtful cells."""
    return published()


def key(file: Path | None) -> str:
    """The API's key, from a file of mode 0600 or the environment; "" for none. Raises ConfigError."""
    if file is None:
        found = os.environ.get(VARIABLE, "")
    else:
        try:
            if file.stat().st_mode & 0o077:
                raise ConfigError(f"{file}: others may read it", f"chmod 600 {file}")
            require(file)
            found = read_bytes(file).decode("utf-8").strip()
        except TooLarge:
            raise ConfigError(f"{file}: it is no key, larger than 1 MB") from None
        except OSError as error:
            raise ConfigError(f"{file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{file}: it is no text") from None
    if found and not (found.isascii() and found.isprintable()):
        raise ConfigError(f"{file or VARIABLE}: a key is one line of ASCII", "write it alone")
    return found
