"""What people look at: rates of checkpoints, false negatives in their sentences."""
