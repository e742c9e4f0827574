"""What protocols share: the steps that a script yields, and patterns of legal message orders."""
