//! railctl: parse, one or few RPCs, render.

fn main() {}
