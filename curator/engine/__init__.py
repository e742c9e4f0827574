"""What a curator does with its sample, without any I/O: checks, history, workspace."""
