"""ids -> logits: the transformer that every lesson, lab and run shares."""
