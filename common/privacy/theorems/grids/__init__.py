"""Privacy losses and profiles as numbers on grids, each with a proven error."""
