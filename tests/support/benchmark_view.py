"""Benchmark view, as several test modules use it."""

from appliance.checks.check import View
from tests.support.profiles import profile_of
from tests.support.sites import site_of

VIEW = View(profile_of(), site_of("head", "gpu-1", "gpu-2"), {})
