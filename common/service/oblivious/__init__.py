"""Oblivious HTTP as services: the gateway of a service, a relay before it, and a client's way through both."""
