"""What a role can want of a host: one resource a module, which Ansible calls by its own name or within appliance.host.apply."""
