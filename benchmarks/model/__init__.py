"""The protocol of referee, agents and curator as a model: every state that it can reach at a small size is looked at.

``rules`` says what a model may be changed in, ``state`` what there is, ``referee``, ``curator`` and ``agents`` what can
happen next, ``invariants`` what must hold, ``search`` goes through all of it (docs/model.md).
"""
