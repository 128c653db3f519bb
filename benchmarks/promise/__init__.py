"""How often predictions really differ on new rows, over many splits."""
