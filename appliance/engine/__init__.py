"""What the verbs share: gather facts, plan, apply, verify."""
