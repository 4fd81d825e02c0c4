"""What users of a cluster find there: charts at their pinned versions, the values of a site, and images of trials."""
