"""Exercises, one module for each lesson: the task, its checker, the reference, and the wrong answers that prove it."""
