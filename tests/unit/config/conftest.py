"""A sound site, and its folder as it should be."""

from tests.support.site_folder import site_folder

__all__ = ["site_folder"]
