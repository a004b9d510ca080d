//! The clients of the API for Go and TypeScript: their own tests, those against a real cluster, and the programs of their pages of the book. What of
//! them is generated is compared in `python_client.rs`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use integration_harness::{Cluster, Shape, binaries};
use tempfile::TempDir;

fn cluster() -> Cluster {
    Cluster::up(&Shape { nodes: 2, rails: 2, gpus: 2, ..Shape::default() }).unwrap()
}

/// Has a program find a cluster as its administrator, and nothing else.
fn live(command: &mut Command, cluster: &Cluster) {
    command.env("RAIL_TEST_LIVE", "1").env("RAIL_CONFIG", cluster.home().join("config.yaml"));
    for variable in
        ["RAIL_CONTEXT", "RAIL_CONTROLLER", "RAIL_CA", "RAIL_CERT", "RAIL_KEY", "RAIL_TOKEN", "RAIL_TENANT"]
    {
        command.env_remove(variable);
    }
}

fn passed(what: &str, output: &Output, cluster: Option<&Cluster>) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let logs = || cluster.map(Cluster::logs).unwrap_or_default();
    assert!(output.status.success(), "{what}\n{out}\n{err}\n{}", logs());
    out.into_owned()
}

/// Blocks of code of a page, in their order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(binaries::root().join("docs").join(page)).unwrap();
    let begin = format!("```{language}\n");
    let found = text.split(&begin).skip(1).filter_map(|rest| rest.split("\n```").next());
    found.map(|block| format!("{block}\n")).collect()
}

#[test]
fn the_blocks_of_a_page_are_found() {
    assert!(blocks("go-client.md", "go").iter().all(|block| block.starts_with("package main\n")));
    assert!(blocks("typescript-client.md", "typescript").iter().all(|block| block.starts_with("import ")));
}

/// Go 1.21 or later: of the environment that `cargo xtask test` prepares, or the system's.
struct Go {
    program: PathBuf,
    /// Where what is built is kept, so that only the first run builds Go's own library.
    cache: Option<PathBuf>,
}

impl Go {
    fn find() -> Option<Self> {
        let prepared = std::env::var_os("RAIL_TEST_GO").map(PathBuf::from);
        let tools = prepared.as_deref().filter(|program| program.is_absolute());
        let cache = tools.and_then(|program| program.ancestors().nth(3)).map(|folder| folder.join("cache"));
        let go = Self { program: prepared.unwrap_or_else(|| "go".into()), cache };
        let found = go.command(&binaries::root().join("cli/clients/go")).args(["env", "GOVERSION"]).output();
        let version =
            found.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let minor = version.trim().strip_prefix("go1.").and_then(|rest| rest.split('.').next());
        if minor.and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor >= 21) {
            return Some(go);
        }
        println!("skipped: there is no Go 1.21 or later for the Go client");
        None
    }

    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(folder).stdin(Stdio::null());
        // Nothing is downloaded, and no C compiler is asked for.
        command.env("GOTOOLCHAIN", "local").env("GOPROXY", "off").env("GOFLAGS", "-mod=mod");
        command.env("GOTELEMETRY", "off").env("CGO_ENABLED", "0");
        if let Some(cache) = &self.cache {
            command.env("GOCACHE", cache);
        }
        command
    }
}

#[test]
fn the_go_client_drives_a_cluster_and_its_page_runs() {
    let Some(go) = Go::find() else { return };
    let module = binaries::root().join("cli/clients/go");
    passed("go vet", &go.command(&module).args(["vet", "./..."]).output().unwrap(), None);
    let cluster = cluster();
    let mut tests = go.command(&module);
    tests.args(["test", "-count=1", "-v", "./..."]);
    live(&mut tests, &cluster);
    let printed = passed("go test", &tests.output().unwrap(), Some(&cluster));
    assert!(!printed.contains("--- SKIP") && printed.contains("--- PASS: TestLiveJobs"), "{printed}");

    let folder = tempfile::tempdir().unwrap();
    let requires = format!(
        "module page\n\ngo 1.21\n\nrequire github.com/railyard/railyard-go v0.1.0\n\nreplace github.com/railyard/railyard-go => {}\n",
        module.display()
    );
    fs::write(folder.path().join("go.mod"), requires).unwrap();
    let programs = blocks("go-client.md", "go");
    assert!(programs.len() >= 4, "{}", programs.len());
    for (at, program) in programs.iter().enumerate() {
        fs::create_dir(folder.path().join(format!("p{at}"))).unwrap();
        fs::write(folder.path().join(format!("p{at}/main.go")), program).unwrap();
    }
    passed(
        "go build",
        &go.command(folder.path()).args(["build", "-o", "bin/", "./..."]).output().unwrap(),
        None,
    );
    for at in 0..programs.len() {
        let mut program = Command::new(folder.path().join(format!("bin/p{at}")));
        live(&mut program, &cluster);
        passed(&format!("program {at} of docs/go-client.md"), &program.output().unwrap(), Some(&cluster));
    }
}

/// The formatter of Go is beside the compiler.
#[test]
fn the_go_client_is_formatted() {
    let Some(go) = Go::find() else { return };
    let gofmt = go.program.with_file_name("gofmt");
    let module = binaries::root().join("cli/clients/go");
    let output = Command::new(gofmt).arg("-l").arg(module).output().unwrap();
    assert_eq!(passed("gofmt", &output, None), "");
}

/// The folder in which `cargo xtask test` has the TypeScript compiler, with a Node that runs what it makes.
fn typescript() -> Option<PathBuf> {
    let tools = std::env::var_os("RAIL_TEST_TYPESCRIPT").map(PathBuf::from);
    let version = Command::new("node").arg("--version").output();
    let version =
        version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let major = version.trim().strip_prefix('v').and_then(|rest| rest.split('.').next());
    let runs = major.and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= 20);
    let compiles = tools.as_ref().is_some_and(|tools| compiler(tools).exists());
    if !runs || !compiles {
        println!("skipped: there is no Node 20 with the TypeScript compiler for the TypeScript client");
        return None;
    }
    tools
}

fn compiler(tools: &Path) -> PathBuf {
    tools.join("node_modules/typescript/bin/tsc")
}

/// The compiler, with the types of Node.
fn tsc(tools: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(compiler(tools)).arg("--typeRoots").arg(tools.join("node_modules/@types"));
    command
}

/// The package as it is installed in a project: compiled, below `node_modules`.
fn installed(tools: &Path) -> (TempDir, PathBuf) {
    let source = binaries::root().join("cli/clients/typescript");
    let project = tempfile::tempdir().unwrap();
    let package = project.path().join("node_modules/@railyard/client");
    fs::create_dir_all(&package).unwrap();
    fs::copy(source.join("package.json"), package.join("package.json")).unwrap();
    fs::write(project.path().join("package.json"), "{\"type\": \"module\"}\n").unwrap();
    let mut compile = tsc(tools);
    compile.arg("--project").arg(&source).arg("--outDir").arg(package.join("dist"));
    passed("tsc", &compile.output().unwrap(), None);
    (project, package)
}

#[test]
fn the_typescript_client_drives_a_cluster_and_its_page_runs() {
    let Some(tools) = typescript() else { return };
    let (project, package) = installed(&tools);
    let cluster = cluster();
    let tests = fs::read_dir(package.join("dist/test")).unwrap().map(|entry| entry.unwrap().path());
    let tests: Vec<PathBuf> = tests.filter(|path| path.to_string_lossy().ends_with(".test.js")).collect();
    assert!(tests.len() >= 4, "{tests:?}");
    let mut run = Command::new("node");
    run.args(["--test", "--test-reporter=tap"]).args(&tests).stdin(Stdio::null());
    live(&mut run, &cluster);
    let printed = passed("node --test", &run.output().unwrap(), Some(&cluster));
    assert!(printed.contains("# skipped 0\n") && printed.contains("# fail 0\n"), "{printed}");

    let programs = blocks("typescript-client.md", "typescript");
    assert!(programs.len() >= 5, "{}", programs.len());
    let mut compile = tsc(&tools);
    compile.args([
        "--strict",
        "--target",
        "es2022",
        "--module",
        "nodenext",
        "--types",
        "node",
        "--skipLibCheck",
    ]);
    for (at, program) in programs.iter().enumerate() {
        let file = project.path().join(format!("p{at}.ts"));
        fs::write(&file, program).unwrap();
        compile.arg(file);
    }
    passed("tsc of docs/typescript-client.md", &compile.output().unwrap(), None);
    for at in 0..programs.len() {
        let mut program = Command::new("node");
        program.arg(project.path().join(format!("p{at}.js"))).stdin(Stdio::null());
        live(&mut program, &cluster);
        passed(
            &format!("program {at} of docs/typescript-client.md"),
            &program.output().unwrap(),
            Some(&cluster),
        );
    }
}
