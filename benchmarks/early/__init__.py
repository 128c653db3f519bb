"""What asking fewer trees is worth on the clock."""
