"""Tracer labs: one question, one script, one record each.

A lab trains or calls the real `minimind` package for a few steps and writes down what happened. Each is a script
(`python labs/trace_pretrain_step.py`), a function (`labs.trace_pretrain_step.run() -> Record`) and a reference
record under `labs/records/` that the next run is compared with. `python -m labs` lists them.
"""
