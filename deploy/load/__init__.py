"""Load tests: very many light agents against a deployment, and measurements of what their requests took."""
