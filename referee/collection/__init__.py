"""Questions out, answers in."""
