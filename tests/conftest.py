"""What all tests share: in CI random examples are the same each time, so that red means a change made it so."""

import os

from hypothesis import settings

# No test is wrong for being slow: machines differ.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
