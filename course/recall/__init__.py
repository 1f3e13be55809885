"""Questions that come back in later lessons, one module for each lesson; `course.kit.recall` says when."""
