//! `cargo xtask docs`: the book, its generated pages and the man pages; and what is checked of all of it: links, generated pages, the
//! length of the README, and blocks of commands, which are run with `--run`.

mod help;
mod markdown;
mod metrics;
mod options;
mod reasons;
mod session;
mod source;

use std::{
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{Mutex, PoisonError},
    thread,
};

use markdown::{Block, Fate, Page};

use crate::{
    process::{self, Result},
    tools,
};

pub use options::man;

/// Most lines of the README.
const README: usize = 120;

/// Options of `cargo xtask docs`.
#[derive(clap::Args)]
pub struct Args {
    /// Run the blocks of commands, page by page, each page in a home of its own
    #[arg(long)]
    run: bool,
    /// With --run: only pages whose path contains this
    #[arg(long)]
    page: Option<String>,
    /// Change nothing: generated pages are compared, neither book nor man pages are made
    #[arg(long)]
    check: bool,
    /// Folder with the programs, already built; they are built if left out
    #[arg(long)]
    bin: Option<PathBuf>,
}

/// Makes and checks what the arguments say.
pub fn run(args: &Args) -> Result<ExitCode> {
    let bin = match &args.bin {
        Some(bin) => bin.canonicalize()?,
        None => {
            process::run(process::cargo(["build", "--quiet"]))?;
            process::target_dir()?.join("debug")
        }
    };
    let mut wrong = generated(&bin, !args.check)?;
    let (pages, blocks) = checked(&mut wrong)?;
    if !args.check {
        let target = process::target_dir()?;
        let made = options::man(&bin, &target.join("man"))?;
        println!("{made} man pages: {}", target.join("man").display());
        match book(&target.join("book")) {
            Ok(Ok(())) => println!("the book: {}", target.join("book/index.html").display()),
            Ok(Err(error)) => wrong.push(error.to_string()),
            Err(why) => println!("skipped: the book: {why}"),
        }
    }
    if args.run {
        let ran = executed(&bin, &pages, &blocks, args.page.as_deref())?;
        ran.skipped.iter().for_each(|why| println!("skipped: {why}"));
        wrong.extend(ran.wrong);
    }
    wrong.iter().for_each(|what| println!("    {what}"));
    println!("{} pages, {} wrong", pages.len(), wrong.len());
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What `cargo xtask test` does of it, with programs that are built: each check with its outcome, and why one was left out.
pub fn test(bin: &Path) -> (Vec<(&'static str, Result<()>)>, Vec<String>) {
    let mut skipped = Vec::new();
    let mut outcomes = Vec::new();
    let checks = || -> Result<(Vec<Page>, Vec<Vec<Block>>)> {
        let mut wrong = generated(bin, false)?;
        let (pages, blocks) = checked(&mut wrong)?;
        if wrong.is_empty() { Ok((pages, blocks)) } else { Err(wrong.join("\n    ").into()) }
    };
    match checks() {
        Ok((pages, blocks)) => {
            outcomes.push(("cargo xtask docs --check", Ok(())));
            let ran = executed(bin, &pages, &blocks, None).and_then(|ran| {
                skipped.extend(ran.skipped);
                if ran.wrong.is_empty() { Ok(()) } else { Err(ran.wrong.join("\n    ").into()) }
            });
            outcomes.push(("cargo xtask docs --run", ran));
        }
        Err(error) => outcomes.push(("cargo xtask docs --check", Err(error))),
    }
    match process::target_dir().and_then(|target| book(&target.join("book"))) {
        Ok(outcome) => outcomes.push(("the book", outcome)),
        Err(why) => skipped.push(format!("the book: {why}")),
    }
    (outcomes, skipped)
}

/// Generated pages: written, or compared with what is there. Gives those that are not as they should be.
fn generated(bin: &Path, write: bool) -> Result<Vec<String>> {
    let mut pages =
        vec![("metrics.md".to_owned(), metrics::page()?), ("reasons.md".to_owned(), reasons::page()?)];
    for program in options::PROGRAMS {
        pages.push((format!("options/{program}.md"), options::page(bin, program)?));
    }
    let mut wrong = Vec::new();
    for (name, wanted) in pages {
        let path = process::root().join("docs").join(&name);
        let is = fs::read_to_string(&path).unwrap_or_default();
        if is == wanted {
            continue;
        }
        if write {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(&path, wanted)?;
            println!("written: docs/{name}");
        } else {
            let line = is.lines().zip(wanted.lines()).position(|(is, wanted)| is != wanted);
            let line = line.unwrap_or_else(|| is.lines().count().min(wanted.lines().count())) + 1;
            wrong.push(format!("docs/{name}:{line}: not as the programs say it: run `cargo xtask docs`"));
        }
    }
    Ok(wrong)
}

/// All pages with their blocks; what is wrong with them is added.
fn checked(wrong: &mut Vec<String>) -> Result<(Vec<Page>, Vec<Vec<Block>>)> {
    let pages = markdown::pages()?;
    wrong.extend(markdown::links(&pages));
    wrong.extend(unlisted(&pages));
    let text = |path: &str| pages.iter().find(|page| page.path == path).map_or("", |page| page.text.as_str());
    let unknown = reasons::unknown(text("docs/troubleshooting.md"), text("docs/reasons.md"));
    wrong.extend(unknown.iter().map(|code| format!("docs/troubleshooting.md: nothing says {code} any more")));
    let lines =
        pages.iter().find(|page| page.path == "README.md").map_or(0, |page| page.text.lines().count());
    if lines > README {
        wrong.push(format!(
            "README.md has {lines} lines, {README} at most: what is longer is a chapter of docs/"
        ));
    }
    let blocks = pages.iter().map(|page| markdown::blocks(page, wrong)).collect();
    Ok((pages, blocks))
}

/// Pages of the book that its summary does not have: nobody finds them.
fn unlisted(pages: &[Page]) -> Vec<String> {
    let summary =
        pages.iter().find(|page| page.path == "docs/SUMMARY.md").map_or("", |page| page.text.as_str());
    let inside =
        pages.iter().filter_map(|page| page.path.strip_prefix("docs/")).filter(|name| *name != "SUMMARY.md");
    let missing = inside.filter(|name| !summary.contains(&format!("]({name})")));
    missing.map(|name| format!("docs/SUMMARY.md does not have {name}")).collect()
}

/// Builds the book. The outer error says why it cannot be tried here.
fn book(folder: &Path) -> Result<Result<()>> {
    let mut mdbook = Command::new(tools::mdbook()?);
    mdbook.args(["build", "--dest-dir"]).arg(folder).arg(process::root().join("docs"));
    Ok(process::run_quiet(&mut mdbook))
}

/// What came of running pages.
#[derive(Default)]
struct Executed {
    wrong: Vec<String>,
    skipped: Vec<String>,
}

/// Runs every page that has something to run, several at a time: each has a home, and a cluster, of its own.
fn executed(bin: &Path, pages: &[Page], blocks: &[Vec<Block>], only: Option<&str>) -> Result<Executed> {
    let logs = process::target_dir()?.join("docs");
    let mut outcome = Executed::default();
    let not_run = blocks.iter().flatten().filter(|block| !block.runs()).count();
    let mut ready = VecDeque::new();
    for (page, blocks) in pages.iter().zip(blocks) {
        let wanted = only.is_none_or(|only| page.path.contains(only));
        if wanted && blocks.iter().any(Block::runs) {
            // Fetched here, one after another: programs of one name have one folder.
            match programs(bin, blocks) {
                Ok(programs) => ready.push_back((page, blocks, programs)),
                Err(why) => outcome.skipped.push(format!("{}: {why}", page.path)),
            }
        }
    }
    let ready = Mutex::new(ready);
    let next = || ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let wrong = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..process::at_once() {
            scope.spawn(|| {
                while let Some((page, blocks, programs)) = next() {
                    match session::run(page, blocks, &programs, &logs) {
                        Ok(ran) => println!(
                            "    {}: {} blocks in {:.1} s",
                            page.path,
                            ran.blocks,
                            ran.took.as_secs_f32()
                        ),
                        Err(error) => {
                            let error = (page.path.clone(), error.to_string());
                            wrong.lock().unwrap_or_else(PoisonError::into_inner).push(error);
                        }
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    wrong.sort();
    outcome.wrong.extend(wrong.into_iter().map(|(_, error)| error));
    println!("    {not_run} blocks are not to be run, each with its reason; output: {}", logs.display());
    Ok(outcome)
}

/// Folders of programs that a page's blocks need. An error says which cannot be had.
fn programs(bin: &Path, blocks: &[Block]) -> Result<Vec<PathBuf>> {
    let mut folders = vec![bin.to_owned()];
    for block in blocks {
        if let Fate::RunWith(name) = &block.fate {
            let program = match name.as_str() {
                "etcd" => tools::etcd()?,
                other => return Err(format!("nobody knows how to get {other}").into()),
            };
            folders.extend(program.parent().filter(|folder| folder.is_absolute()).map(Path::to_owned));
        }
    }
    Ok(folders)
}
