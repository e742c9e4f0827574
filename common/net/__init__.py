"""HTTP between the parties: server, client, limits, TLS, oblivious HTTP, and the common base of the commands."""
