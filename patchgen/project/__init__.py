"""What a project is: its configuration, its files, where its things lie, and by whose rules it is flattened."""
