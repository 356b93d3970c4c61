"""Where calls are caught: modules are given a subclass of their own class that runs the hooks."""
