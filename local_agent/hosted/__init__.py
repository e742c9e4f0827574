"""A hosted population: very many people in one process, each of whom answers at most once."""
