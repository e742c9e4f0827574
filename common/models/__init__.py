"""Models that can be used: a run's public answer together with the public rules by which columns become features."""
