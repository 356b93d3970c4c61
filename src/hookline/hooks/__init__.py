"""A named group of hooks on one model, and what there is to know about the hooks on a model."""

from hookline.hooks.group import Hooks
from hookline.hooks.listing import HookInfo, HookList, hooks_on
from hookline.hooks.record import Record
from hookline.hooks.registration import Registration
from hookline.hooks.report import HooksReport, ReportRow

__all__ = ["HookInfo", "HookList", "Hooks", "HooksReport", "Record", "Registration", "ReportRow", "hooks_on"]
