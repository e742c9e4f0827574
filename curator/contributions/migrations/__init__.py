"""Schema of the contributions that a curator keeps."""
