"""Private domain adaptation between a public and a private sample (Bassily, Cortes, Mao and Mohri, ICML 2024)."""
