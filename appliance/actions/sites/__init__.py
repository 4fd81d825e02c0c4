"""What verbs need of a site: init, opening, interrupts, reports."""
