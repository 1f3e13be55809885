"""What `--data_path` and `--tokenizer` mean: names and files -> documents and batches."""

import random
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from minimind import world
from minimind.chat import Message
from minimind.config import RunConfig
from minimind.data.corpora import CORPORA, corpus_texts
from minimind.data.documents import Documents, split_documents, split_indices
from minimind.data.jsonl import read_conversations, read_texts
from minimind.data.loader import DocumentBatches, PackedBatches
from minimind.data.sft import ConversationBatches, Conversations

WORLD_SEED = 1
"""The small world's texts do not depend on a run's seed: runs that differ in it train on the same data."""


QUESTION_SEED = 2
"""Of the questions to train on; those that measure a model are drawn with others."""

Batches = DocumentBatches | PackedBatches | ConversationBatches


@dataclass(frozen=True)
class StageData:
    """Batches to train on and to validate on, with a sentence that describes them."""

    train: Batches
    validation: Batches | None
    description: str


def load_texts(run: RunConfig) -> tuple[list[str], str]:
    """The documents that `data_path` names, and a sentence about where they came from and what was dropped.

    Raises:
        ValueError: there is no such data, or a row of it is unreadable; the message names file and line.
    """
    if run.data_path == "world":
        texts = world.pretrain_documents(run.world_documents, WORLD_SEED)
        return texts, f"{len(texts):,} documents of the small world"
    if run.data_path in CORPORA:
        texts = corpus_texts(run.data_path)
        return texts, f"{len(texts):,} documents of the shipped corpus {run.data_path}"
    path = Path(run.data_path)
    if not run.data_path.strip() or not path.exists():
        raise ValueError(
            f"data_path={run.data_path!r} is neither a file nor one of world, {', '.join(sorted(CORPORA))}."
        )
    report = read_texts(path, lenient=bool(run.lenient))
    return report.rows, f"{len(report.rows):,} documents of {path.name} ({report.summary()})"


def pretrain_data(run: RunConfig, tokenizer: PreTrainedTokenizerFast) -> StageData:
    """Tokenises the documents of a run and puts them into batches.

    Raises:
        ValueError: see `load_texts`; or there is less text than one update needs.
    """
    texts, description = load_texts(run)
    documents = Documents.from_texts(texts, tokenizer)
    if run.validation_documents >= len(documents):
        raise ValueError(
            f"validation_documents={run.validation_documents} would hold out all {len(documents)} documents of "
            f"data_path={run.data_path!r}; hold out fewer, or none with --validation_documents 0."
        )
    train, held_out = split_documents(documents, run.validation_documents, run.seed)

    def batches(some: Documents, rows: int) -> DocumentBatches | PackedBatches:
        make = PackedBatches if run.packing else DocumentBatches
        return make(
            documents=some,
            batch_size=rows,
            max_seq_len=run.max_seq_len,
            seed=run.seed,
            bos=tokenizer.bos_token_id,
            eos=tokenizer.eos_token_id,
            pad=tokenizer.pad_token_id,
        )

    source = batches(train, run.batch_size * run.accumulation_steps)
    validation = batches(held_out, min(len(held_out), 64)) if run.validation_documents else None
    return StageData(source, validation, f"{description}; {_describe(source, run.max_seq_len)}")


def load_conversations(run: RunConfig) -> tuple[list[list[Message]], str]:
    """The conversations that `data_path` names, and a sentence about where they came from and what was dropped.

    Raises:
        ValueError: there is no such data, or a row of it is no conversation; the message names file and line.
    """
    if run.data_path == "world":
        rng = random.Random(QUESTION_SEED)
        asked = [world.question(rng) for _ in range(run.world_documents)]
        conversations = [question_messages(each) for each in asked]
        return conversations, f"{len(conversations):,} questions of the small world"
    path = Path(run.data_path)
    if not run.data_path.strip() or not path.exists():
        raise ValueError(f"data_path={run.data_path!r} is neither a .jsonl file of conversations nor 'world'.")
    report = read_conversations(path, lenient=bool(run.lenient))
    return report.rows, f"{len(report.rows):,} conversations of {path.name} ({report.summary()})"


def question_messages(question: world.Question) -> list[Message]:
    """A question of the small world as two turns."""
    return [{"role": "user", "content": question.user}, {"role": "assistant", "content": question.assistant}]


def sft_data(run: RunConfig, tokenizer: PreTrainedTokenizerFast) -> StageData:
    """Tokenises the conversations of a run and puts them into batches, a row each.

    Raises:
        ValueError: see `load_conversations`; there is nothing to supervise; or packing is asked for.
    """
    if run.packing:
        raise ValueError("packing=1 is not there for conversations yet; each has a row of its own. Use --packing 0.")
    messages, description = load_conversations(run)
    conversations = Conversations.from_messages(messages, tokenizer, run.max_seq_len)
    if conversations.dropped:
        description += f", {conversations.dropped:,} of them dropped: nothing of the assistant within max_seq_len"
    train, held_out = split_indices(conversations.contents, run.validation_documents, run.seed, "conversations")

    def batches(some: Conversations, rows: int) -> ConversationBatches:
        return ConversationBatches(some, batch_size=rows, seed=run.seed, pad=tokenizer.pad_token_id)

    source = batches(conversations.select(train), run.batch_size * run.accumulation_steps)
    validation = batches(conversations.select(held_out), min(len(held_out), 64)) if len(held_out) else None
    return StageData(source, validation, f"{description}; {_describe(source, run.max_seq_len)}")


def _describe(source: Batches, max_seq_len: int) -> str:
    epoch = source.statistics(0)
    sentence = (
        f"{epoch.real_tokens:,} tokens in {epoch.batches:,} batches an epoch, {epoch.waste():.1%} of positions padding"
    )
    if isinstance(source, ConversationBatches):
        sentence += f", {epoch.supervised_tokens:,} tokens supervised"
    if epoch.cut_documents:
        what = "conversations" if isinstance(source, ConversationBatches) else "documents"
        sentence += f", {epoch.cut_documents:,} {what} cut at {max_seq_len} tokens (-{epoch.cut_tokens:,})"
    return sentence
