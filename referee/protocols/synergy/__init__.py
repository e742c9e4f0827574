"""The tasks of the hybrid model that neither side can do alone. Each script is the protocol of its lemma."""
