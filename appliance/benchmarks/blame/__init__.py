"""Who is to blame: outliers among equals, and which end or path explains bad pairs. Pure functions of measurements."""
