"""What rows prove, and what is fitted to them: bounds, splits, thresholds."""
