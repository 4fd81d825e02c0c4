"""The program GPU hosts keep that judges them for their scheduler: is this host fit for work, and if not, why."""
