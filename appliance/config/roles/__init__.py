"""From models to role variables: one file and one function per Ansible role."""
