"""What every party shares: vocabularies, wire types, identities, mechanisms and privacy accounting.

Imports no party. Nothing here holds anybody's records.
"""
