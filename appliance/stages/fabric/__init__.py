"""Stage fabric: InfiniBand and RoCE, the subnet manager, cabling."""
