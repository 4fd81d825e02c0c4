"""The program that enforces time limits on Kubernetes. It runs on control hosts and needs only Python 3.8."""
