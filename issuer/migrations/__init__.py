"""The schema of the issuer's database, in versions."""
