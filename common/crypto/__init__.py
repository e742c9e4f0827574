"""Keys and their uses: signatures, blind signatures, vouchers, encryption to a public key."""
