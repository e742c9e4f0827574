"""Problems: what the hybrid model's tasks are about, as public numbers. One class a file, registered."""
