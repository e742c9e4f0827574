"""What a charged event pays for."""
