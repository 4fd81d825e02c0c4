"""A small site and a session on it without any network."""

from tests.support.engine_session import hosts, recorder, session

__all__ = ["hosts", "recorder", "session"]
