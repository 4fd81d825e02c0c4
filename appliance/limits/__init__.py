"""The program that keeps limits of time on Kubernetes; runs on control hosts, needs nothing but Python 3.8."""
