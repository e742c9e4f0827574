"""One script for each correction of docs/corrections.md: a counterexample or the numbers, checked again by itself."""
