"""Executes a plan: drains hosts, runs stages, proves them, and writes receipts."""
