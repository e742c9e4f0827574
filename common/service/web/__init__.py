"""Every HTTP service: how it starts, what each request passes, and how it is measured."""
