"""Gradients: how hooks reach them without changing what the model computes."""

import hookline.intercept.gradient.crossing  # noqa: F401 - tells the engine about gradients
from hookline.intercept.gradient.gradient_call import BackwardCall, GradientCall
from hookline.intercept.gradient.places import Places

__all__ = ["BackwardCall", "GradientCall", "Places"]
