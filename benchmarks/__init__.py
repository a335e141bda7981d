"""How fast it is beside its peers and the limit of the disk, as ratios within one run."""
