"""Verbs of the cluster: etcd, images, kubeconfigs, nodes, queues."""
