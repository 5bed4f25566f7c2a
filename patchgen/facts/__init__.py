"""What is known of transformers and is not read from its files: look here at each new release."""
