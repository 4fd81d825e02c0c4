"""The only doors to the outside: processes, SSH, Ansible."""
