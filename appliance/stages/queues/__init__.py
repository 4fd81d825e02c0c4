"""Stage queues: brings the site's queues to its cluster, through the cluster's API."""
