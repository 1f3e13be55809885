"""Mistakes in one update, in its optimizers and in the loop around it."""

from tests.mutate.mutation import Mutation

STEP, OPTIM, MUON = "minimind/train/step.py", "minimind/train/optim.py", "minimind/train/muon.py"
SCHEDULE, LOOP = "minimind/train/schedule.py", "minimind/train/loop.py"
_SAME_UPDATE = "tests/train/test_step.py::test_one_big_batch_an_accumulated_one_and_a_padded_one_are_the_same_update"
_CLIP = "tests/train/test_step.py::test_a_gradient_that_is_too_long_is_shortened_and_no_other"
_RATE_FIRST = "tests/train/test_step.py::test_the_rate_is_set_before_the_parameters_move"
_TWO_RANKS = "tests/train/test_two_ranks.py::test_two_ranks_make_the_update_that_one_makes_with_the_whole_batch"
_OWN_PEAK = "tests/train/test_optim.py::test_the_rate_is_a_share_of_each_optimizer_s_own_peak"
_BACKWARD = "(loss_sum / total_weight * distributed.world_size()).backward()"
_CLIPPING = (
    "if state.grad_clip > 0:\n"
    "        torch.nn.utils.clip_grads_with_norm_(model.parameters(), state.grad_clip, grad_norm)\n"
)

MUTATIONS = (
    # --- one update
    Mutation(
        "accumulation takes the mean of means",
        STEP,
        _BACKWARD,
        "(loss_sum / weight.clamp(min=1) / len(microbatches)).backward()",
        (_SAME_UPDATE,),
    ),
    Mutation(
        "accumulation divides twice",
        STEP,
        _BACKWARD,
        "(loss_sum / total_weight / len(microbatches) * distributed.world_size()).backward()",
        (_SAME_UPDATE,),
    ),
    Mutation(
        "every rank divides by its own weight",
        STEP,
        "distributed.sum_over_ranks(torch.stack(weights).sum())",
        "torch.stack(weights).sum()",
        (_TWO_RANKS,),
    ),
    Mutation("ranks are averaged and not summed", STEP, " * distributed.world_size()", "", (_TWO_RANKS,)),
    Mutation(
        "ranks exchange gradients after every micro-batch",
        STEP,
        "is_last = index == len(microbatches) - 1",
        "is_last = True",
        ("tests/train/test_two_ranks.py::test_gradients_are_exchanged_once_an_update_after_the_last_microbatch",),
    ),
    Mutation(
        "the loss reported is that of the last micro-batch",
        STEP,
        "loss += loss_sum.detach() / total_weight",
        "loss = loss_sum.detach() / total_weight",
        (_SAME_UPDATE,),
    ),
    Mutation(
        "the forward pass ignores autocast",
        STEP,
        "with state.autocast():",
        "with nullcontext():",
        ("tests/train/test_step.py::test_the_forward_pass_runs_in_the_state_s_autocast",),
    ),
    Mutation("the gradient is not clipped", STEP, "if state.grad_clip > 0:", "if state.grad_clip < 0:", (_CLIP,)),
    Mutation(
        "each parameter is clipped by itself",
        STEP,
        "torch.nn.utils.clip_grads_with_norm_(model.parameters(), state.grad_clip, grad_norm)",
        "[torch.nn.utils.clip_grad_norm_([p], state.grad_clip) for p in model.parameters()]",
        (_CLIP,),
    ),
    Mutation(
        "the gradient norm is the sum of absolute values",
        STEP,
        "for p in model.parameters() if p.grad is not None])",
        "for p in model.parameters() if p.grad is not None], 1.0)",
        (_CLIP,),
    ),
    Mutation(
        "the clip comes after the parameters have moved",
        STEP,
        _CLIPPING + '    emit("grads.clipped", model=model)\n\n'
        "    # 4. Set the rate, move the parameters, forget the gradient.\n"
        "    learning_rate = state.optimizers.set_rate(state.schedule(state.step))\n"
        "    state.optimizers.step()\n",
        "learning_rate = state.optimizers.set_rate(state.schedule(state.step))\n    state.optimizers.step()\n    "
        + _CLIPPING
        + '    emit("grads.clipped", model=model)\n',
        ("tests/train/test_step.py::test_three_updates_equal_adamw_written_from_its_formula",),
    ),
    Mutation(
        "the rate is set after the parameters have moved",
        STEP,
        "learning_rate = state.optimizers.set_rate(state.schedule(state.step))\n    state.optimizers.step()\n",
        "state.optimizers.step()\n    learning_rate = state.optimizers.set_rate(state.schedule(state.step))\n",
        (_RATE_FIRST,),
    ),
    Mutation(
        "the rate is that of the next update",
        STEP,
        "state.schedule(state.step)",
        "state.schedule(state.step + 1)",
        (_RATE_FIRST,),
    ),
    Mutation(
        "the gradient is kept for the next update",
        STEP,
        "    state.optimizers.zero_grad()\n",
        "",
        ("tests/train/test_step.py::test_no_gradient_is_left_for_the_next_update",),
    ),
    # --- schedule
    Mutation(
        "the schedule has no floor",
        SCHEDULE,
        "return floor + (1.0 - floor) * 0.5",
        "return 0.5",
        ("tests/train/test_schedule.py::test_without_warm_up_it_is_minimind_s_own_formula",),
    ),
    Mutation(
        "the first step of the warm-up does not move",
        SCHEDULE,
        "(step + 1) / (warmup_steps + 1)",
        "step / warmup_steps",
        ("tests/train/test_schedule.py::test_the_warm_up_is_a_straight_line_whose_first_step_moves",),
    ),
    Mutation(
        "the warm-up is one step too short",
        SCHEDULE,
        "(step + 1) / (warmup_steps + 1)",
        "(step + 1) / warmup_steps",
        ("tests/train/test_schedule.py::test_the_warm_up_is_a_straight_line_whose_first_step_moves",),
    ),
    Mutation(
        "the cosine does not wait for the end of the warm-up",
        SCHEDULE,
        "(step - warmup_steps) / (total_steps - warmup_steps)",
        "step / total_steps",
        ("tests/train/test_schedule.py::test_after_the_warm_up_the_cosine_takes_what_is_left",),
    ),
    Mutation(
        "after the last step the rate rises again",
        SCHEDULE,
        "progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))",
        "progress = (step - warmup_steps) / (total_steps - warmup_steps)",
        ("tests/train/test_schedule.py::test_it_starts_at_the_peak_ends_at_a_tenth_and_stays_there",),
    ),
    # --- optimizers
    Mutation(
        "the vectors of norms decay",
        OPTIM,
        '{"params": vectors, "weight_decay": 0.0}',
        '{"params": vectors, "weight_decay": weight_decay}',
        ("tests/train/test_optim.py::test_matrices_decay_and_the_vectors_of_norms_do_not",),
    ),
    Mutation(
        "the betas do not reach AdamW",
        OPTIM,
        "lr=learning_rate, betas=betas, fused=True",
        "lr=learning_rate, fused=True",
        ("tests/train/test_optim.py::test_the_settings_reach_the_optimizers",),
    ),
    Mutation(
        "Muon is given the embedding",
        OPTIM,
        "if p.dim() == 2 and not _is_table(name)]",
        "if p.dim() == 2]",
        ("tests/train/test_optim.py::test_muon_gets_the_matrices_inside_the_blocks_and_nothing_else",),
    ),
    Mutation(
        "a frozen parameter is moved",
        OPTIM,
        "trained = [p for p in model.parameters() if p.requires_grad]",
        "trained = list(model.parameters())",
        ("tests/train/test_optim.py::test_a_frozen_parameter_is_not_moved",),
    ),
    Mutation(
        "the rate is a share of the rate before",
        OPTIM,
        'group["lr"] = self._peaks[name] * factor',
        'group["lr"] = group["lr"] * factor',
        (_OWN_PEAK,),
    ),
    Mutation(
        "Muon runs at AdamW's rate",
        OPTIM,
        'group["lr"] = self._peaks[name] * factor',
        'group["lr"] = next(iter(self._peaks.values())) * factor',
        (_OWN_PEAK,),
    ),
    Mutation(
        "Muon moves a tall matrix no further than a wide one",
        MUON,
        "alpha=-lr * max(1.0, rows / columns) ** 0.5",
        "alpha=-lr",
        ("tests/train/test_muon.py::test_three_updates_are_those_of_torch_s_muon",),
    ),
    Mutation(
        "Muon does not look ahead",
        MUON,
        "ahead = p.grad.lerp(average, momentum)",
        "ahead = average",
        ("tests/train/test_muon.py::test_three_updates_are_those_of_torch_s_muon",),
    ),
    # --- loop
    Mutation(
        "the data continue one batch too far",
        LOOP,
        "divmod(state.step, source.batches_per_epoch())",
        "divmod(state.step + 1, source.batches_per_epoch())",
        ("tests/train/test_loop.py::test_where_the_data_continues_follows_from_the_step_alone",),
    ),
    Mutation(
        "a gradient that is no number stops nothing",
        LOOP,
        "(math.isfinite(loss) and math.isfinite(norm))",
        "math.isfinite(loss)",
        ("tests/train/test_loop.py::test_a_gradient_that_is_no_number_stops_the_run_too",),
    ),
    Mutation(
        "parameters are saved while one number of them is one",
        LOOP,
        "torch.isfinite(parameter).all()",
        "torch.isfinite(parameter).any()",
        ("tests/train/test_loop.py::test_one_ruined_number_is_enough_that_nothing_is_saved",),
    ),
    Mutation(
        "a run is saved before anybody looks at its numbers",
        LOOP,
        "if is_last or validate or save or _due(step, read_interval):",
        "if is_last or _due(step, 4):",
        ("tests/train/test_loop.py::test_after_each_update_metrics_then_validation_then_save",),
    ),
    Mutation(
        "the last update is not saved",
        LOOP,
        "save = is_last or _due(step, plan.save_interval)",
        "save = _due(step, plan.save_interval)",
        ("tests/train/test_loop.py::test_the_last_update_is_always_measured_and_saved",),
    ),
)
