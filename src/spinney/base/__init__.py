"""What the classifiers of all methods share."""
