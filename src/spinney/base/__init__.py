"""What the classifiers of all rooms share."""
