"""The versions of the issuer's database, oldest first."""
