"""The program that divides a host's GPUs as declared; runs on the hosts, needs nothing but Python 3.8."""
