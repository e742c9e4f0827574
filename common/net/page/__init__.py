"""Pages that a command serves to a browser of its own machine."""
