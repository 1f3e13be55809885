"""The command `minimind`. Its options are the fields of typed dataclasses; there is no second list of them.

minimind pretrain --preset lesson --hidden_size 96
minimind sft
minimind chat --prompt "What is 2 + 3?"
minimind generate --from_weight pretrain --prompt "One day,"
minimind check --stage sft
minimind tokenizer train --recipe world-800 --save_dir my-tokenizer
"""

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse import ArgumentParser

from minimind.config import PRESETS, STAGES, RunConfig, preset

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from minimind.model.transformer import MiniMindForCausalLM

PresetName = Literal["lab", "lesson"]
StageName = Literal["pretrain", "sft"]
assert set(STAGES) == set(StageName.__args__)  # type: ignore[attr-defined]
assert set(PRESETS) == set(PresetName.__args__)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class GenerateConfig:
    """How to continue a prompt with a trained model.

    Args:
        prompt: the beginning of the text; empty starts from nothing.
        from_weight: a name in save_dir, or a folder of weights.
        save_dir: where weights are looked for by name.
        max_new_tokens: at most so many tokens are added.
        temperature: 0 takes the likeliest token every time; 1 samples from the model's own distribution.
        samples: how many continuations to write.
        seed: of the sampling.
        device: 'cpu', 'cuda', 'mps', or 'auto' for the best of them.
    """

    prompt: str = ""
    from_weight: str = "pretrain"
    save_dir: str = "out"
    max_new_tokens: int = 100
    temperature: float = 0.7
    samples: int = 1
    seed: int = 0
    device: str = "cpu"


@dataclass(frozen=True)
class ChatConfig:
    """How to talk with a fine-tuned model.

    Args:
        prompt: a question to answer; empty begins a conversation in the terminal.
        system: what the model is told before the conversation begins; empty for nothing.
        from_weight: a name in save_dir, or a folder of weights.
        save_dir: where weights are looked for by name.
        history: 1 shows the model what was said before, 0 asks each question by itself.
        max_new_tokens: at most so many tokens in an answer.
        temperature: 0 takes the likeliest token every time; 1 samples from the model's own distribution.
        top_k: sample among the so many likeliest tokens; 0 among all.
        top_p: sample among the likeliest that together reach this probability; 1 among all.
        seed: of the sampling.
        device: 'cpu', 'cuda', 'mps', or 'auto' for the best of them.
    """

    prompt: str = ""
    system: str = ""
    from_weight: str = "sft"
    save_dir: str = "out"
    history: Literal[0, 1] = 0
    max_new_tokens: int = 100
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    device: str = "cpu"


@dataclass(frozen=True)
class TokenizerConfig:
    """How to train a tokenizer.

    Args:
        save_dir: new folder for it.
        recipe: a shipped tokenizer to make again, byte for byte; or 'file' to learn from data_path.
        data_path: with recipe 'file': the .jsonl or .txt file to learn from.
        vocab_size: with recipe 'file': entries of the vocabulary.
    """

    save_dir: str
    recipe: Literal["world-800", "minimind-6400", "file"] = "world-800"
    data_path: str = ""
    vocab_size: int = 6400


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status. An error for a person is one sentence and status 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Chinese shows ?, and training goes on
    arguments = _parser().parse_args(argv, defaults=False)
    command: str = arguments.subcommand
    given = arguments[command]
    if command == "tokenizer":
        command, given = "tokenizer train", given[given.subcommand]
    try:
        status = _COMMANDS[command](given.as_dict())
    except (ValueError, RuntimeError, OSError) as error:
        print(f"minimind {command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"minimind {command}: interrupted.", file=sys.stderr)
        return 130
    return status or 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="minimind", allow_abbrev=False, description="Train a small language model and use it.")
    commands = parser.add_subcommands()

    pretrain = _command("minimind pretrain", "Teach a model to continue text.")
    pretrain.add_argument(
        "--preset", type=PresetName, default="lesson", help="where the defaults come from; those below are lesson's"
    )
    _add_run(pretrain, "pretrain")
    commands.add_subcommand("pretrain", pretrain, help="teach a model to continue text")

    sft = _command("minimind sft", "Teach a model that continues text to answer.")
    _add_run(sft, "sft")
    commands.add_subcommand("sft", sft, help="teach a pretrained model to answer")

    generate = _command("minimind generate", "Continue a prompt with a trained model.")
    generate.add_class_arguments(GenerateConfig)
    commands.add_subcommand("generate", generate, help="continue a prompt with a trained model")

    chat = _command("minimind chat", "Ask a fine-tuned model.")
    chat.add_class_arguments(ChatConfig)
    commands.add_subcommand("chat", chat, help="ask a fine-tuned model")

    check = _command("minimind check", "Say what a run needs, what is missing, and the command that mends it.")
    check.add_argument("--stage", type=StageName, default="pretrain", help="the command that is to run")
    check.add_argument("--everything", type=Literal[0, 1], default=0, help="1 names every package, also those in order")
    check.add_argument("--preset", type=PresetName, default="lesson", help="where the defaults come from")
    _add_run(check, "pretrain")
    commands.add_subcommand("check", check, help="say what a run needs and what is missing")

    train_tokenizer = _command("minimind tokenizer train", "Learn a vocabulary from text.")
    train_tokenizer.add_class_arguments(TokenizerConfig)
    tokenizer = _command("minimind tokenizer", "Tokenizers.")
    commands.add_subcommand("tokenizer", tokenizer, help="train a tokenizer")
    tokenizer.add_subcommands().add_subcommand("train", train_tokenizer, help="learn a vocabulary from text")
    return parser


def _add_run(parser: ArgumentParser, stage: str) -> None:
    parser.add_argument("--config", type=str, default="", help="a TOML file with fields to set over the defaults")
    parser.add_class_arguments(RunConfig)
    parser.set_defaults(STAGES[stage])


def _command(name: str, description: str) -> ArgumentParser:
    # One line of usage: the full list of options would bury an error message below it.
    return ArgumentParser(prog=name, usage=f"{name} [options]", allow_abbrev=False, description=description)


def _pretrain(given: dict[str, Any]) -> None:
    from minimind.train.pretrain import pretrain

    pretrain(_run_config("pretrain", given), show_bar=_has_terminal())


def _sft(given: dict[str, Any]) -> None:
    from minimind.train.sft import sft

    sft(_run_config("sft", given), show_bar=_has_terminal())


def _run_config(stage: str, given: dict[str, Any]) -> RunConfig:
    run = preset(given.pop("preset", "lesson"), stage)
    if config := given.pop("config", ""):
        run = run.merged_with_toml(Path(config))
    return run.replace(**given)


def _has_terminal() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _generate(given: dict[str, Any]) -> None:
    from minimind.serve.generate import continue_prompts

    config = GenerateConfig(**given)
    if config.samples < 1:
        raise ValueError(f"samples={config.samples} must be at least 1.")
    model, tokenizer = _load(config)
    texts = continue_prompts(
        model, tokenizer, [config.prompt] * config.samples, config.max_new_tokens, config.temperature, config.seed
    )
    print("\n\n".join(texts))


def _chat(given: dict[str, Any]) -> None:
    from minimind.serve.stream import stream_answer

    config = ChatConfig(**given)
    model, tokenizer = _load(config)
    so_far: list[dict[str, str]] = [{"role": "system", "content": config.system}] if config.system else []

    def answer(question: str, seed: int) -> None:
        turns = [*so_far, {"role": "user", "content": question}]
        pieces = []
        for piece in stream_answer(
            model,
            tokenizer,
            turns,
            config.max_new_tokens,
            config.temperature,
            config.top_k,
            config.top_p,
            seed,
        ):
            print(piece, end="", flush=True)
            pieces.append(piece)
        print()
        if config.history:
            so_far.extend([turns[-1], {"role": "assistant", "content": "".join(pieces)}])

    if config.prompt:
        answer(config.prompt, config.seed)
        return
    if sys.stdin.isatty():
        print("Ask something; an empty line ends the conversation.")
    for number, line in enumerate(_questions()):
        answer(line, config.seed + number)


def _check(given: dict[str, Any]) -> int:
    from minimind.readiness import as_command, as_text, is_ready, report

    stage, everything = given.pop("stage", "pretrain"), given.pop("everything", 0)
    run = _run_config(stage, given)
    findings = report(run, stage=stage)
    ready = is_ready(findings)
    print(as_text(findings, everything=bool(everything)))
    print(f"\n{'ready' if ready else 'NOT ready'} for: {as_command(run, stage)}")
    return 0 if ready else 1


def _questions() -> Iterator[str]:
    """What is typed, line by line, until an empty line or the end of the input."""
    while True:
        if sys.stdin.isatty():
            print("> ", end="", flush=True)
        line = sys.stdin.readline().strip()
        if not line:
            return
        yield line


def _load(config: GenerateConfig | ChatConfig) -> "tuple[MiniMindForCausalLM, PreTrainedTokenizerFast]":
    """The model and the tokenizer that a configuration names, on its device."""
    from minimind.model.hub import find_weights, load_weights
    from minimind.tokenizer import load_tokenizer
    from minimind.train.device import resolve_device

    if not 0 <= config.seed < 2**63:
        raise ValueError(f"seed={config.seed} must be a whole number from 0 to 2**63 - 1.")
    device = resolve_device(config.device)
    folder = find_weights(config.from_weight, config.save_dir)
    model = load_weights(folder)
    tokenizer = load_tokenizer(folder)
    if len(tokenizer) != model.config.vocab_size:
        raise ValueError(
            f"{folder}: the tokenizer has {len(tokenizer)} entries and the model {model.config.vocab_size}; they do "
            "not belong together."
        )
    model.to(device)  # type: ignore[arg-type]
    return model, tokenizer


def _train_tokenizer(given: dict[str, Any]) -> None:
    from minimind.data.jsonl import read_texts
    from minimind.folders import require_folder
    from minimind.tokenizer import SHIPPED_VOCAB_SIZES, shipped_training_texts, train_tokenizer

    config = TokenizerConfig(**given)
    require_folder("save_dir", config.save_dir)
    if config.vocab_size > 1_000_000:
        raise ValueError(f"vocab_size={config.vocab_size:,} is beyond 1,000,000, the most that is allowed.")
    folder = Path(config.save_dir)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"save_dir={config.save_dir!r} is not empty; a new tokenizer needs a new folder.")
    if config.recipe == "file":
        if not config.data_path:
            raise ValueError("recipe='file' needs --data_path: the .jsonl or .txt file to learn from.")
        tokenizer = train_tokenizer(read_texts(config.data_path).rows, config.vocab_size)
    else:
        unused = {"data_path", "vocab_size"} & given.keys()
        if unused:
            raise ValueError(f"{sorted(unused)[0]} has no effect with recipe={config.recipe!r}; add --recipe file.")
        tokenizer = train_tokenizer(shipped_training_texts(config.recipe), SHIPPED_VOCAB_SIZES[config.recipe])
    tokenizer.save_pretrained(folder)
    print(f"tokenizer of {len(tokenizer):,} entries in {folder}")


_COMMANDS: dict[str, Callable[[dict[str, Any]], int | None]] = {
    "pretrain": _pretrain,
    "sft": _sft,
    "chat": _chat,
    "check": _check,
    "generate": _generate,
    "tokenizer train": _train_tokenizer,
}

if __name__ == "__main__":
    sys.exit(main())
