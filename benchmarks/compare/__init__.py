"""spinney's runtime beside other engines for the same trained model."""
