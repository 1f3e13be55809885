"""Mistakes in checkpoints and in resuming, in traces, and in what a trained model writes."""

from tests.mutate.mutation import Mutation

STATE, OPTIM, RESUME = "minimind/train/state.py", "minimind/train/optim.py", "minimind/train/resume.py"
CHECKPOINT, FILES = "minimind/train/checkpoint.py", "minimind/train/checkpoint_files.py"
RECORD, RECORDER, GENERATE = "minimind/trace/record.py", "minimind/trace/recorder.py", "minimind/serve/generate.py"
_GOES_ON = "tests/train/test_state.py::test_a_restored_state_goes_on_bit_for_bit"
_CHANGED = "tests/trace/test_record.py::test_a_changed_field_is_found_and_named"
_RECORDED = "tests/trace/test_recorder.py::test_the_record_says_what_happened"
_GREEDY = "tests/serve/test_generate.py::test_the_likeliest_continuation_is_that_of_a_loop_without_batch_and_cache"

MUTATIONS = (
    # --- state
    Mutation(
        "the random state is not restored",
        STATE,
        '    _restore_random_state(snapshot.tensors["rng/rank-00000"], snapshot.documents["rng/rank-00000"])\n',
        "",
        (_GOES_ON,),
    ),
    Mutation(
        "numpy's random state is not restored",
        STATE,
        "    np.random.set_state((kind, np.array(keys, dtype=np.uint32), position, has_gauss, cached))\n",
        "",
        ("tests/train/test_state.py::test_every_random_generator_goes_on_where_it_was",),
    ),
    Mutation(
        "a resumed run is one step further",
        STATE,
        "state.step = snapshot.step",
        "state.step = snapshot.step + 1",
        (_GOES_ON,),
    ),
    Mutation(
        "a run resumes on other data",
        STATE,
        "if saved != ours:",
        "if not saved:",
        ("tests/train/test_state.py::test_other_data_are_refused",),
    ),
    Mutation(
        "the optimizers' averages begin at zero again",
        OPTIM,
        "= place.clone()",
        "= torch.zeros_like(place)",
        ("tests/train/test_optim.py::test_the_state_comes_back_exactly_and_the_next_update_is_the_same",),
    ),
    Mutation(
        "the optimizers share memory with what they were loaded from",
        OPTIM,
        "= place.clone()",
        "= place",
        ("tests/train/test_optim.py::test_a_loaded_state_shares_nothing_with_what_it_was_loaded_from",),
    ),
    Mutation(
        "averages from before a resume stay",
        OPTIM,
        "        part.state.clear()\n",
        "",
        ("tests/train/test_optim.py::test_what_was_there_before_is_forgotten",),
    ),
    Mutation(
        "a run may be resumed with another batch size",
        RESUME,
        "packing batch_size ",
        "packing ",
        ("tests/train/test_resume.py::test_every_setting_that_makes_another_run_is_tested_here",),
    ),
    # --- checkpoints
    Mutation(
        "older checkpoints go before the new one was read back",
        CHECKPOINT,
        "if verify(path) != manifest:",
        "if not manifest.files:",
        ("tests/train/test_checkpoint.py::test_nothing_is_removed_when_the_new_one_does_not_read_back",),
    ),
    Mutation(
        "the oldest checkpoints are kept instead of the newest",
        CHECKPOINT,
        "for older_step, path in reversed(list_checkpoints(root)):",
        "for older_step, path in list_checkpoints(root):",
        ("tests/train/test_checkpoint.py::test_the_newest_are_kept",),
    ),
    Mutation(
        "a damaged checkpoint counts as kept",
        CHECKPOINT,
        "                verify(path)\n                kept += 1",
        "                kept += 1",
        ("tests/train/test_checkpoint.py::test_the_last_good_one_is_kept_while_newer_ones_are_damaged",),
    ),
    Mutation(
        "the oldest good checkpoint is taken for the newest",
        CHECKPOINT,
        "for _, path in reversed(list_checkpoints(root)):",
        "for _, path in list_checkpoints(root):",
        ("tests/train/test_resume.py::test_the_newest_checkpoint_is_taken_and_named",),
    ),
    Mutation(
        "the hashes of a manifest are not compared",
        FILES,
        "if found != record:",
        "if found.bytes != record.bytes:",
        ("tests/train/test_checkpoint.py::test_one_flipped_bit_is_rejected_by_name",),
    ),
    Mutation(
        "the manifest's own hash is not compared",
        FILES,
        "if manifest.to_bytes() != text:",
        "if not text:",
        ("tests/train/test_checkpoint.py::test_a_flipped_bit_at_any_byte_of_the_manifest_is_rejected",),
    ),
    Mutation(
        "a checkpoint's files are not forced to the disk",
        FILES,
        "        disk.sync_file(file, path)\n",
        "",
        ("tests/faults/test_commit_survives_kill.py::test_without_power_at_every_change_a_good_checkpoint_is_found",),
    ),
    Mutation(
        "loaded weights may lack a tensor",
        "minimind/model/hub.py",
        'for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):',
        'for kind in ("unexpected_keys", "mismatched_keys"):',
        ("tests/model/test_hub.py::test_a_missing_tensor_is_named",),
    ),
    # --- traces
    Mutation(
        "records are compared without their token counts",
        RECORD,
        'NOT_COMPARED = ("time_s", "memory_bytes")',
        'NOT_COMPARED = ("time_s", "memory_bytes", "tokens")',
        (_CHANGED,),
    ),
    Mutation(
        "a field that one record lacks is no difference",
        RECORD,
        "sorted(ours.keys() | reference.keys())",
        "sorted(ours.keys() & reference.keys())",
        (_CHANGED,),
    ),
    Mutation(
        "records are compared loosely",
        RECORD,
        "RTOL = 1e-4",
        "RTOL = 1e-2",
        (_CHANGED,),
    ),
    Mutation(
        "recording draws a random number",
        RECORDER,
        "        self._sample_ids, self._micro = [], []\n",
        "        self._sample_ids, self._micro = [], []\n        torch.rand(1)\n",
        ("tests/trace/test_recorder.py::test_a_recorded_run_has_the_bits_of_an_unrecorded_one",),
    ),
    Mutation(
        "the largest movement of a record is that in one direction",
        RECORDER,
        "return torch.maximum(-low, high)",
        "return high",
        (_RECORDED,),
    ),
    Mutation(
        "a recorder keeps tensors and not copies",
        RECORDER,
        "self.tensors[name] = tensor.detach().clone()",
        "self.tensors[name] = tensor.detach()",
        ("tests/trace/test_recorder.py::test_only_the_first_pass_is_kept_and_as_a_copy",),
    ),
    Mutation(
        "the attention pattern shown is not the one used",
        "minimind/trace/taps.py",
        "/ q.shape[-1] ** 0.5",
        "/ q.shape[-1]",
        ("tests/trace/test_recorder.py::test_the_attention_pattern_is_the_one_that_attention_used",),
    ),
    # --- use
    Mutation(
        "what is written goes on after its end token",
        GENERATE,
        "return ids[: ids.index(tokenizer.eos_token_id)] if tokenizer.eos_token_id in ids else ids",
        "return ids",
        ("tests/serve/test_generate.py::test_a_text_ends_at_the_end_token",),
    ),
    Mutation(
        "prompts are padded on the right",
        GENERATE,
        "[pad] * (longest - len(row)) + list(row) for row in rows",
        "list(row) + [pad] * (longest - len(row)) for row in rows",
        (_GREEDY,),
    ),
    Mutation(
        "padding of a prompt is read",
        GENERATE,
        "[[0] * (longest - len(row)) + [1] * len(row) for row in rows]",
        "[[1] * longest for row in rows]",
        (_GREEDY,),
    ),
    Mutation(
        "sampling moves the caller's random state",
        GENERATE,
        "with torch.random.fork_rng(devices=devices), torch.no_grad():",
        "with torch.no_grad():",
        ("tests/serve/test_generate.py::test_the_program_around_is_left_as_it_was",),
    ),
    Mutation(
        "validation is measured with dropout",
        "minimind/evaluate.py",
        "    model.eval()\n    loss_sum, weight",
        "    loss_sum, weight",
        ("tests/test_evaluate.py::test_validation_is_the_mean_over_all_tokens_without_dropout",),
    ),
    Mutation(
        "the questions to measure with are drawn as those of training are",
        "minimind/evaluate.py",
        'random.Random(f"questions to measure with, {seed}")',
        "random.Random(seed)",
        ("tests/train/test_sft.py::test_no_seed_measures_with_the_random_numbers_of_the_training_questions",),
    ),
)
