"""The site's tree in Run:ai's control plane, by its REST API."""
