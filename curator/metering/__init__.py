"""What a charged event pays for: draws, noise and mechanisms, handed out one by one and never beyond it."""
