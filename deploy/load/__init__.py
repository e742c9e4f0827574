"""Load tests: very many light agents against a deployment, and what it took."""
