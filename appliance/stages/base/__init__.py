"""Stage base: people, ssh, time, kernel parameters, limits and firewall."""
