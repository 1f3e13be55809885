"""Two configurations: what the model is (`MiniMindConfig`) and what one run does (`RunConfig`)."""

from minimind.config.model import MiniMindConfig
from minimind.config.presets import PRESETS, STAGES, preset
from minimind.config.run import RunConfig

__all__ = ["PRESETS", "STAGES", "MiniMindConfig", "RunConfig", "preset"]
