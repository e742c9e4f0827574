"""Protocols: generators that read like the paper's algorithms and do no I/O. One file each, registered."""
