"""Results of cases, and the report that is written of them."""
