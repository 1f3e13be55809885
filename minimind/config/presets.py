"""Runs with a name: what a lesson, a lab or a stage starts from."""

from typing import Any

from minimind.config.run import RunConfig

PRESETS: dict[str, RunConfig] = {
    "lesson": RunConfig(),
    # Single steps whose every printed number must hold on another machine: AdamW, since Muon computes in bf16.
    "lab": RunConfig(
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=0,
        intermediate_size=0,
        tokenizer="minimind-6400",
        data_path="tang5",
        validation_documents=0,
        max_seq_len=48,
        max_steps=8,
        batch_size=2,
        optimizer="adamw",
        learning_rate=5e-4,
        warmup_steps=0,
        threads=1,
        save_weight="lab",
        save_interval=0,
        log_interval=1,
        eval_interval=0,
        samples=0,
    ),
}


STAGES: dict[str, dict[str, Any]] = {
    "pretrain": {},
    "sft": {
        "from_weight": "pretrain",
        "save_weight": "sft",
        "world_documents": 10000,
        "validation_documents": 100,
        "max_steps": 600,
        "learning_rate": 5e-3,
        "warmup_steps": 10,
        "save_interval": 300,
        "eval_interval": 150,
    },
}
"""What a stage changes in the preset that it starts from."""


def preset(name: str, stage: str = "pretrain") -> RunConfig:
    """The run that a preset names, for a stage of training.

    Raises:
        ValueError: there is no such preset or stage, or not this stage of this preset; the message lists those that
            exist.
    """
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}; choose one of {', '.join(sorted(PRESETS))}.")
    if stage not in STAGES:
        raise ValueError(f"there is no stage {stage!r}; choose one of {', '.join(STAGES)}.")
    if stage != "pretrain" and name != "lesson":
        raise ValueError(f"preset {name!r} is of pretraining alone; for {stage} take 'lesson'.")
    return PRESETS[name].replace(**STAGES[stage])
