"""Stage limits: limits of time for work on Kubernetes."""
