"""Write files: each change whole or not at all, one run at a time."""
