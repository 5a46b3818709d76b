"""What hidden tokens are made to predict: exchangeable targets of masked prediction, thrown away before probing."""
