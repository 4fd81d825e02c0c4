"""The program that divides a host's GPUs as declared. It runs on the hosts and needs only Python 3.8."""
