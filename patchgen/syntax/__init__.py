"""Text to facts: reading, locating, partitioning and naming.  Standard library only; nothing is imported or run."""
