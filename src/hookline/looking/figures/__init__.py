"""Pictures of captured values as matplotlib figures."""

from hookline.looking.figures.plot import plot

__all__ = ["plot"]
