"""Measurements against PyTorch's own hooks, as ratios in one run."""
