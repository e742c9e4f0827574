"""Tests of the issuer."""
