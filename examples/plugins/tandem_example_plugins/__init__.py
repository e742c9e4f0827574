"""One plug-in of each kind: people in a band, intervals that find it, and what S and T say about them."""
