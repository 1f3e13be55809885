"""What `--data_path` and `--tokenizer` mean: names and files -> documents and batches."""

from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from minimind import world
from minimind.config import RunConfig
from minimind.data.corpora import CORPORA, corpus_texts
from minimind.data.documents import Documents, split_documents
from minimind.data.jsonl import read_texts
from minimind.data.loader import DocumentBatches, PackedBatches

WORLD_SEED = 1
"""The small world's texts do not depend on a run's seed: runs that differ in it train on the same data."""


@dataclass(frozen=True)
class PretrainData:
    """Batches to train on and to validate on, with a sentence that describes them."""

    train: DocumentBatches | PackedBatches
    validation: DocumentBatches | PackedBatches | None
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


def pretrain_data(run: RunConfig, tokenizer: PreTrainedTokenizerFast) -> PretrainData:
    """Tokenises the documents of a run and puts them into batches.

    Raises:
        ValueError: see `load_texts`; or there is less text than one update needs.
    """
    texts, description = load_texts(run)
    documents = Documents.from_texts(texts, tokenizer)
    if run.validation_documents >= len(documents):
        raise ValueError(
            f"validation_documents={run.validation_documents} would hold out all {len(documents)} documents of "
            f"data_path={run.data_path!r}; hold out fewer."
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
    return PretrainData(source, validation, f"{description}; {_describe(source)}")


def _describe(source: DocumentBatches | PackedBatches) -> str:
    epoch = source.statistics(0)
    sentence = (
        f"{epoch.real_tokens:,} tokens in {epoch.batches:,} batches an epoch, {epoch.waste():.1%} of positions padding"
    )
    if epoch.cut_documents:
        sentence += f", {epoch.cut_documents:,} documents cut at {source.max_seq_len} tokens (-{epoch.cut_tokens:,})"
    return sentence
