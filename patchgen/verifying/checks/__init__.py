"""How each kind of case is decided: a function that never raises for what a model does wrong."""
