"""Times variants on a GPU beside their alternatives, in cases that fit its memory."""
