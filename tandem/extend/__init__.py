"""What authors of plug-ins import, one room for each kind (docs/extending.md).

A room holds the base class, the registry, and the values that their methods take and return. Rooms are apart since an
individual's agent imports queries, mechanisms and hypotheses, also those of plug-ins, and should load nothing else.
"""
