"""Faults of the machine under real parties: disks that are full or read-only, clocks that jump, no descriptors left."""
