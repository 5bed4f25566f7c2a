"""The plans by which a model is split over devices, compared between a variant and its parent."""
