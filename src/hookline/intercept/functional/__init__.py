"""Calls of torch functions inside a module's own forward."""

from hookline.intercept.functional.listing import FunctionInfo, FunctionList, functions
from hookline.intercept.functional.own_calls import seen_functions
from hookline.intercept.functional.sites import attach_function

__all__ = ["FunctionInfo", "FunctionList", "attach_function", "functions", "seen_functions"]
