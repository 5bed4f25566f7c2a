"""Compare outputs with what their modular files give, explain differences, and repair them."""
