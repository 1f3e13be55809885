"""weights -> text: generating from a trained model."""
