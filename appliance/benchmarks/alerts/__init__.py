"""Trial alerts, through Alertmanager to the receivers of the site."""
