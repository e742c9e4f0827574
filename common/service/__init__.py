"""What every service and command line has in common."""
