"""What the curator does for each operation of its vocabulary. One operation a file; each declares its event first."""
