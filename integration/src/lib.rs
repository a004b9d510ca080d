//! Nothing but tests, in `tests/it`: the house against its map, and the product as real processes. What they stand on is the harness beside.
