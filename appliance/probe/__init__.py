"""The program that runs on a host, changes nothing and answers everything about it in one document."""
