"""Stage slurm: controller, accounting, GPU hosts, containers of jobs."""
