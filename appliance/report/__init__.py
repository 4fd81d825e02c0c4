"""Console, JSON, HTML, Nagios and Prometheus renderings of results."""
