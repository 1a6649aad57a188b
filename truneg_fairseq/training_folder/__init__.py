"""A training run's folder: its checkpoints, its lock, its manifest, how it starts and stops."""
