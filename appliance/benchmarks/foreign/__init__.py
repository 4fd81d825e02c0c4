"""Audits of a site by programs of others: shown beside ours, and counting for no gate."""
