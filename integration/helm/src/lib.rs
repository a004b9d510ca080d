//! Nothing but tests, in `tests/it`: the chart in `deploy/helm`. `render` is the program in Go that renders it.
