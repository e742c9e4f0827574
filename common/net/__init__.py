"""HTTP between the parties: server, client, limits, TLS, oblivious HTTP, and what commands have in common."""
