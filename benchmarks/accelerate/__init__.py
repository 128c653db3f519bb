"""What `spinney.accelerate` saves on the clock, beside engines that take all trees."""
