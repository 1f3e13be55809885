"""The language loss: at every position, how surprised was the model by the token that came next?"""

import torch.nn.functional as F
from torch import Tensor, nn

from minimind.data.batch import IGNORE_INDEX, Batch


class NextToken:
    """Sum of -log p(next token) over supervised tokens, in nats; its weight is their number.

    The loss of an update is `sum of loss / sum of weight` over all its micro-batches. Summing first and dividing
    once is what makes a big batch, an accumulated one and a padded one the same update.
    """

    def weight(self, batch: Batch) -> Tensor:
        """How many tokens are predicted: labels that are not -100, the first of each row apart (a scalar)."""
        return (batch.labels[:, 1:] != IGNORE_INDEX).sum()

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The summed loss of one micro-batch (a scalar with a gradient).

        Args:
            model: called as a model is called; the wrapped one where there is a wrapper, since only its forward
                synchronises gradients between processes.
            batch: B rows of T positions.
        """
        packed = {} if batch.document_ids is None else {"document_ids": batch.document_ids}
        if batch.position_ids is not None:
            packed["position_ids"] = batch.position_ids
        output = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, **packed)
        return next_token_loss_sum(output.logits, batch.labels)


def next_token_loss_sum(logits_BTV: Tensor, labels_BT: Tensor) -> Tensor:
    """Summed cross entropy between the logits at t and the label at t + 1, computed in fp32.

    The logits of the last position have no label to answer to, and the first label has no logits before it.
    """
    predictions = logits_BTV[:, :-1].flatten(0, 1).float()
    targets = labels_BT[:, 1:].flatten()
    return F.cross_entropy(predictions, targets, ignore_index=IGNORE_INDEX, reduction="sum")
