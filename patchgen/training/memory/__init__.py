"""What does a step of training hold in memory, when, and which of it is what?  Predicted, and measured."""
