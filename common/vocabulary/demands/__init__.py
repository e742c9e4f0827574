"""What protocols ask of their scenarios. One file for each protocol that asks for something, registered."""
