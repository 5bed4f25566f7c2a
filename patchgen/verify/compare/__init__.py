"""How far two observations are apart, and how far they may be."""
