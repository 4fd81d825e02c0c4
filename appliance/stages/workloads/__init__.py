"""Stage workloads: volumes, job operators, notebooks, serving."""
