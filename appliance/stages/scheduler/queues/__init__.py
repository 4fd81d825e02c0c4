"""The site's queues, as a tree for rules and as Kubernetes objects."""
