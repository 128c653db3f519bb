"""What evaluating fewer trees is worth on the clock."""
