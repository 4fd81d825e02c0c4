"""The site's queues: as a tree that can be judged, and as what Kubernetes is told."""
