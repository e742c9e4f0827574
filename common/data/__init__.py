"""Sources of people's records: tables and simulated distributions."""
