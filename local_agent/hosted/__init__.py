"""A hosted population: very many people in one process, each with a limited number of answers."""
