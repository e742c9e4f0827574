"""What remains of a protocol about a problem if one side is left out: what ``alone=curator`` and ``alone=agents`` run.

A protocol's ablations show that the other side is needed. They are made of the parts of its script.
"""
