"""Batches -> updates: one step, the loop around it, and what it saves."""
