"""What the page shows of runs, plans and transcripts, as values."""
