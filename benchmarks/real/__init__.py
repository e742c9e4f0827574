"""The losses of methods on real people who differ from the volunteers."""
