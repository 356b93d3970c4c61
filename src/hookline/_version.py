"""The version of hookline."""

__version__ = "0.1.0.dev0"
