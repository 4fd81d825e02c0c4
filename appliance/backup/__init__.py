"""The program that saves a control host's data off the host, and restores it. It runs on control hosts and needs only Python 3.8."""
