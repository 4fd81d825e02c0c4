"""The program that runs on a host, changes nothing, and reports its facts in one document."""
