"""Where people's records come from: tables and distributions."""
