"""The console of a curator's owner: a local page about the state directory, private from its first line to its last."""
