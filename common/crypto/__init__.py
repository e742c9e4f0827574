"""Keys and what is made with them: signatures, blind signatures, vouchers, encryption to a public key."""
