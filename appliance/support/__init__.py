"""The program that reads logs, configuration and vendor reports on hosts for a support bundle; standard library and the probe only."""
