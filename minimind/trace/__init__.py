"""Watching a training step without changing it: events, recorder, record. Depends on torch only."""

from minimind.trace.events import Emit, no_op
from minimind.trace.record import Difference, ParameterRecord, Record, StepRecord
from minimind.trace.recorder import Recorder

__all__ = ["Difference", "Emit", "ParameterRecord", "Record", "Recorder", "StepRecord", "no_op"]
