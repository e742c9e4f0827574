"""Send questions to agents and collect their answers."""
