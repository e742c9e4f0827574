"""What all runs together cost a person, on either side: who is known again, what was charged, what is refused."""
