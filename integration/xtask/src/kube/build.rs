//! How a program in Go is built from source that has all it needs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{process::Result, tools};

/// `go build` of one program into a file, without network, from the vendor folder alone.
pub fn build(
    go: &Path,
    source: &Path,
    scratch: &Path,
    flags: &str,
    (name, program): (&str, &Path),
) -> Command {
    let flags = format!("-s -w {flags}");
    let mut command = Command::new(go);
    command.args(["build", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o"]).arg(program);
    command.arg(format!("./cmd/{name}")).current_dir(source);
    command.env("GOCACHE", scratch.join("cache")).env("GOPATH", scratch.join("path"));
    let settings =
        [("GOFLAGS", "-mod=vendor"), ("GOPROXY", "off"), ("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "0")];
    command.envs(settings);
    command
}

/// The Go that go.mod asks for, or a later one.
///
/// # Errors
/// go.mod cannot be read or names no version, or there is no such Go.
pub fn go(source: &Path) -> Result<PathBuf> {
    let text = fs::read_to_string(source.join("go.mod"))?;
    let wanted =
        text.lines().find_map(|line| line.strip_prefix("go ")).ok_or("go.mod names no version of Go")?;
    tools::go_from(wanted.trim())
}
