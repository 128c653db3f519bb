"""How often answers really differ on new rows, over many splits."""
