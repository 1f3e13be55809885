"""Mistakes in tokens, documents, conversations and batches, and in the small world they come from."""

from tests.mutate.mutation import Mutation

LOADER, DOCUMENTS = "minimind/data/loader.py", "minimind/data/documents.py"
BATCH, DATASET = "minimind/data/batch.py", "minimind/data/pretrain.py"
CHAT, CONVERSATIONS = "minimind/chat.py", "minimind/data/sft.py"
_ROWS = "tests/data/test_loader.py::test_document_rows_hold_every_document_once_cut_and_padded"
_PACKED = "tests/data/test_loader.py::test_no_packed_token_is_predicted_across_a_border"
_END_TO_END = "tests/data/test_loader.py::test_packed_rows_put_together_again_are_the_documents_end_to_end"
_ANYWHERE = "tests/data/test_loader.py::test_starting_anywhere_gives_the_tail_of_the_uninterrupted_order"

MUTATIONS = (
    # --- batches
    Mutation(
        "the last, smaller batch is dropped",
        LOADER,
        "return -(-len(self.documents) // self.batch_size)",
        "return len(self.documents) // self.batch_size",
        (_ROWS,),
    ),
    Mutation(
        "padding has labels in batches",
        LOADER,
        "np.where(real, ids, IGNORE_INDEX)",
        "np.where(real, ids, self.pad)",
        (_ROWS,),
    ),
    Mutation(
        "no document has an end token",
        LOADER,
        "ids[offset == self.lengths[document] - 1] = self.eos",
        "ids[offset == self.lengths[document] - 1] = self.pad",
        (_ROWS,),
    ),
    Mutation(
        "the first epoch's order is kept for all",
        LOADER,
        "plan = self._plans.get(epoch)",
        "plan = next(iter(self._plans.values()), None)",
        (_ANYWHERE,),
    ),
    Mutation(
        "a packed document is predicted from the one before",
        LOADER,
        "labels = np.where(position == 0, IGNORE_INDEX, ids)",
        "labels = ids",
        (_PACKED,),
    ),
    Mutation(
        "packed positions do not begin anew with a row",
        LOADER,
        "np.maximum(start, place - place % T)",
        "start",
        (_PACKED,),
    ),
    Mutation(
        "packed padding belongs to the first document",
        LOADER,
        "document_ids=table(document, -1)",
        "document_ids=table(document, 0)",
        (_END_TO_END,),
    ),
    Mutation(
        "the fingerprint of the data knows no settings",
        LOADER,
        'content = {**self.settings(), "documents": self.documents.fingerprint()}',
        'content = {"documents": self.documents.fingerprint()}',
        ("tests/data/test_loader.py::test_the_fingerprint_changes_with_data_and_every_setting",),
    ),
    Mutation(
        "rows that fill up a batch are learned",
        BATCH,
        "        labels[rows:] = IGNORE_INDEX\n",
        "",
        ("tests/data/test_batch.py::test_pad_rows_adds_rows_that_train_nothing_and_belong_to_no_sample",),
    ),
    Mutation(
        "a batch on another device loses its borders of documents",
        BATCH,
        "document_ids=move(self.document_ids)",
        "document_ids=None",
        ("tests/data/test_batch.py::test_to_moves_every_tensor_and_keeps_the_samples",),
    ),
    # --- samples and documents
    Mutation(
        "a document that was cut keeps its end token",
        DATASET,
        "ids = [self.bos, *self.documents[index].tolist(), self.eos][: self.max_seq_len]",
        "ids = [self.bos, *self.documents[index].tolist()[: self.max_seq_len - 2], self.eos]",
        ("tests/data/test_pretrain.py::test_a_document_around_the_limit",),
    ),
    Mutation(
        "padding has labels in samples",
        DATASET,
        "torch.tensor(ids + [IGNORE_INDEX] * padding)",
        "torch.tensor(ids + [self.pad] * padding)",
        ("tests/data/test_pretrain.py::test_a_sample_is_bos_text_eos_and_padding_without_labels",),
    ),
    Mutation(
        "every epoch has the same order",
        DOCUMENTS,
        "np.random.SeedSequence([seed, epoch, stream])",
        "np.random.SeedSequence([seed, 0, stream])",
        ("tests/data/test_documents.py::test_another_seed_epoch_or_stream_gives_another_order",),
    ),
    Mutation(
        "documents held out are trained on too",
        DOCUMENTS,
        "return np.flatnonzero(~mask), np.flatnonzero(mask)",
        "return np.arange(len(mask)), np.flatnonzero(mask)",
        ("tests/data/test_documents.py::test_held_out_documents_and_the_others_are_together_all_documents",),
    ),
    Mutation(
        "a text that is there twice is held out once",
        DOCUMENTS,
        "if times[contents[index]] == 1]",
        "if times[contents[index]] >= 1]",
        ("tests/data/test_documents.py::test_a_held_out_document_is_nowhere_in_the_training_part",),
    ),
    Mutation(
        "a line of a file that is not an object is passed over",
        "minimind/data/jsonl.py",
        "if not isinstance(row, dict):",
        "if False:",
        ("tests/data/test_jsonl.py::test_a_bad_line_is_named_with_file_line_finding_and_remedy",),
    ),
    # --- conversations
    Mutation(
        "the words of the user are learned",
        CHAT,
        'learned = message["role"] == "assistant"',
        'learned = message["role"] != "system"',
        ("tests/test_chat.py::test_only_the_words_of_the_assistant_and_the_end_of_its_turn_are_supervised",),
    ),
    Mutation(
        "the assistant does not learn to end its turn",
        CHAT,
        'add([*encode_text(tokenizer, message["content"]), tokenizer.eos_token_id], learned)',
        'add(encode_text(tokenizer, message["content"]), learned)\n        add([tokenizer.eos_token_id], False)',
        ("tests/test_chat.py::test_only_the_words_of_the_assistant_and_the_end_of_its_turn_are_supervised",),
    ),
    Mutation(
        "a control token typed in a conversation ends the turn",
        CHAT,
        '*encode_text(tokenizer, message["content"])',
        '*tokenizer.encode(message["content"])',
        ("tests/test_chat.py::test_a_control_string_that_somebody_typed_is_no_control_id",),
    ),
    Mutation(
        "a batch of conversations trains on every word",
        CONVERSATIONS,
        "np.where(real & supervised, ids, IGNORE_INDEX)",
        "np.where(real, ids, IGNORE_INDEX)",
        ("tests/data/test_sft.py::test_a_batch_holds_the_samples_that_it_names",),
    ),
    Mutation(
        "a sample of a conversation trains on every word",
        CONVERSATIONS,
        "labels = np.where(supervised, ids, IGNORE_INDEX).tolist()",
        "labels = ids.tolist()",
        ("tests/data/test_sft.py::test_a_sample_holds_the_conversation_and_labels_on_the_answer_alone",),
    ),
    Mutation(
        "a conversation whose answer was cut off stays in the data",
        CONVERSATIONS,
        "if not any(chat.supervised[1:max_seq_len]):",
        "if not any(chat.supervised):",
        (
            "tests/data/test_sft.py::test_a_long_conversation_is_cut_and_one_without_an_answer_left_is_dropped_and_counted",
        ),
    ),
    Mutation(
        "the fingerprint of conversations knows no mask",
        CONVERSATIONS,
        ', (self.supervised, "|b1"))',
        ")",
        ("tests/data/test_sft.py::test_the_fingerprint_names_data_mask_and_order",),
    ),
    # --- tokenizer and world
    Mutation(
        "control tokens typed by a person become control ids",
        "minimind/tokenizer.py",
        "description.update(added_tokens=[], ",
        "description.update(",
        ("tests/test_tokenizer.py::test_plain_text_comes_back_and_never_becomes_a_control_token",),
    ),
    Mutation(
        "the world's checker accepts any sentence",
        "minimind/world/check.py",
        '"unknown", "not a sentence of the small world")',
        '"unknown", None)',
        ("tests/test_world.py::test_a_document_of_any_kind_gets_its_verdict",),
    ),
    Mutation(
        "the world's checker accepts any sum",
        "minimind/world/check.py",
        "if str(right_result) != result:",
        "if not result:",
        ("tests/test_world.py::test_a_document_of_any_kind_gets_its_verdict",),
    ),
    Mutation(
        "a gift across two places is allowed",
        "minimind/world/sentences.py",
        'if kind == "give" and self.place_of.get(b) != self.place_of[a]:',
        'if kind == "give" and b not in self.place_of:',
        ("tests/test_world.py::test_a_gift_across_two_places_is_caught",),
    ),
    Mutation(
        "sums that are kept out of training are in it",
        "minimind/world/documents.py",
        "if is_held_out(left, right) == held_out:",
        "if is_held_out(left, right) or not held_out:",
        ("tests/test_world.py::test_a_tenth_of_the_sums_is_kept_out_of_training",),
    ),
)
