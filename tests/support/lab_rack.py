"""Lab rack, as several test modules use it."""

from appliance.lab.spec import RackSpec, numbered

RACK = numbered(RackSpec("test", hosts=3), 2, {})
