"""The edits of a class: `with old:` found in a method of the parent, `with new:` put in its place."""
