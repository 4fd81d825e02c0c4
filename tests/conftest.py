"""What all tests share: in CI random examples are the same each time, so that red means a change made it so."""

import os
import tempfile

from hypothesis import settings

# Ansible's library makes a folder below HOME when it is imported; whose tests these are may have none.
os.environ.setdefault("ANSIBLE_LOCAL_TEMP", tempfile.gettempdir())

# No test is wrong for being slow: machines differ.
# Examples are kept nowhere: a checkout may be of another user.
settings.register_profile("here", deadline=None, database=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
