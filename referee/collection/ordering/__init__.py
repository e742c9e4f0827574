"""Which agents a question goes to: everybody who is enrolled, the committed random order, and whom it leads to."""
