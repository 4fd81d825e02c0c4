"""Validate serving: its key and files, and measurements from this machine without a site."""

import os
from pathlib import Path

from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.serving import run, tables, vllm
from appliance.benchmarks.serving.judge import judge
from appliance.benchmarks.serving.reference import tables as published
from appliance.benchmarks.serving.request import Request
from appliance.config.bounded_files import TooLarge, read_bytes
from appliance.errors import ConfigError
from appliance.models.run import Table
from appliance.ownership import require

NAME = "serving"
VARIABLE = "OPENAI_API_KEY"
MOST_BYTES = 64 << 20


def measure_here(request: Request) -> Outcome:
    """The measurements from this machine; limits belong to a site, so none is judged."""
    return run.ask(request, {})


def read_results(file: Path) -> Outcome:
    """The result of ``vllm bench serve``. Raises ConfigError."""
    try:
        model, figure = vllm.read(read_bytes(file, MOST_BYTES).decode("utf-8"))
    except TooLarge:
        raise ConfigError(f"{file}: larger than 64 MiB") from None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        wrote = "name the file written by vllm bench serve --save-result"
        hint = error.fix if isinstance(error, vllm.OtherOptions) else wrote
        raise ConfigError(f"{file}: {error}", hint) from None
    results = tuple(judge([figure], {}))
    measured = tuple(tables.measurements([figure], {"file": file.name, "model": model}, False))
    return Outcome(results, measured, (tables.table([figure], model or "a model", file.name),))


def published_tables() -> tuple[Table, ...]:
    """The tables of the papers as printed, with doubtful cells."""
    return published()


def key(file: Path | None) -> str:
    """The API key, from a file of mode 0600 or the environment; "" for none. Raises ConfigError."""
    if file is None:
        found = os.environ.get(VARIABLE, "")
    else:
        try:
            if file.stat().st_mode & 0o077:
                raise ConfigError(f"{file}: other users can read it", f"chmod 600 {file}")
            require(file)
            found = read_bytes(file).decode("utf-8").strip()
        except TooLarge:
            raise ConfigError(f"{file}: not a key, larger than 1 MB") from None
        except OSError as error:
            raise ConfigError(f"{file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{file}: not text") from None
    if found and not (found.isascii() and found.isprintable()):
        raise ConfigError(
            f"{file or VARIABLE}: a key must be one line of ASCII", "write only the key into it"
        )
    return found
