"""The public face of Tandem."""
