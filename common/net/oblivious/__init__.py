"""Oblivious HTTP (RFC 9458): messages, a client through a relay, the relay, and the gateway of a service."""
