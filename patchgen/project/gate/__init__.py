"""Is every output what its modular file gives, why not, and making it so."""
