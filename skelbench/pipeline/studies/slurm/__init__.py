"""Studies on a cluster that runs SLURM."""
