"""Make the edits of a class: find `with old:` in a parent's method, write `with new:` there."""
