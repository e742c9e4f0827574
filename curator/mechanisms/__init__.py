"""Central mechanisms: each releases a statistic that the curator computed, with the noise that it requires."""
