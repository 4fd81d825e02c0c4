"""Verbs that test the cluster: scheduler, workloads, conformance."""
