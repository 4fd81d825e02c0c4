"""What all tests share: in CI random examples are the same each time, so that red means a change made it so."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
