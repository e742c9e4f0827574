"""Structure-aware fuzzing of everything that reads what somebody else wrote: ``python -m benchmarks.fuzz``."""
