"""The servers that a load falls on: started here, or running elsewhere."""
