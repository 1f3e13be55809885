"""logits -> (loss sum, weight): what a stage of training asks of the model."""
