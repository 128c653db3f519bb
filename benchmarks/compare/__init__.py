"""spinney's runtime beside other ways to ask the same trained model."""
