"""Validate model-load: refusals before any host is contacted; and measurements of this machine, which are not recorded."""

import configparser
from pathlib import Path

from appliance.actions.sites.opening import Target, locate
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.model_load import run
from appliance.benchmarks.model_load.request import Request
from appliance.config.bounded_files import TooLarge, read_bytes
from appliance.errors import ConfigError
from appliance.models.events import Observer
from appliance.text import quoted

NAME = "model-load"
KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
WRITTEN = "write it in the format of the AWS tools: [default], aws_access_key_id = ..., aws_secret_access_key = ..."


def require_hosts(target: Target, request: Request, observer: Observer) -> None:
    """Raises ConfigError for a host that is not in the site."""
    if not request.hosts:
        return
    known = [host.name for host in locate(target, raise_rack=False, observer=observer).site.hosts]
    if strange := [name for name in request.hosts if name not in known]:
        raise ConfigError(
            f"the site has no host {quoted(strange[0])}", f"hosts: {', '.join(known)}"
        )


def measure_here(request: Request) -> Outcome:
    """The measurements of this machine."""
    return run.here(request)


def credentials(file: Path) -> dict[str, str]:
    """Keys of an S3 server as environment variables. Raises ConfigError, also if other users can read the file."""
    try:
        if file.stat().st_mode & 0o077:
            raise ConfigError(f"{file}: other users can read it", f"chmod 600 {file}")
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(read_bytes(file).decode("utf-8"))
    except TooLarge:
        raise ConfigError(f"{file}: not a credentials file, larger than 1 MB", WRITTEN) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    except configparser.Error:
        # The parser's message would quote the line, which may contain a key.
        raise ConfigError(f"{file}: not a credentials file", WRITTEN) from None
    section = parser["default"] if parser.has_section("default") else {}
    found = {key.upper(): section[key] for key in KEYS if section.get(key)}
    if missing := [key for key in KEYS[:2] if key.upper() not in found]:
        raise ConfigError(f"{file}: [default] has no {missing[0]}", WRITTEN)
    return found
