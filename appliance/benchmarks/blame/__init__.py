"""Finds faulty hosts: outliers among peers, and the ends or paths that explain bad pairs. Pure functions of measurements."""
