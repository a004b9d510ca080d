//! Source that is built: a folder that has it, or a clone without files that it is taken out of.

use std::{
    fs,
    io::{BufRead, BufReader, Read as _, Write as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::process::{self, Result};

/// Kubernetes itself, which openshift/microshift has with all that it is built from.
pub const KUBERNETES: Project =
    Project { inside: "deps/github.com/openshift/kubernetes", program: "cmd/kube-apiserver" };
/// Kueue: its own repository.
pub const KUEUE: Project = Project { inside: "", program: "cmd/kueue" };

/// A project in Go that carries all it is built from.
pub struct Project {
    /// Where a clone has it; nothing where it is the whole of it.
    inside: &'static str,
    /// A folder by which its source is known, beside `vendor`.
    program: &'static str,
}

/// The folder with a project's source: as it is named, in a clone, or taken out of a clone that has no files into `scratch`.
///
/// # Errors
/// There is none, or it cannot be taken out.
pub fn find(project: &Project, sources: &Path, scratch: &Path) -> Result<PathBuf> {
    let Project { inside, program } = *project;
    let sources = std::path::absolute(sources)?;
    let is_whole = |folder: &Path| folder.join(program).is_dir() && folder.join("vendor").is_dir();
    if let Some(whole) = [sources.clone(), sources.join(inside)].into_iter().find(|folder| is_whole(folder)) {
        return Ok(whole);
    }
    if !sources.join("objects").is_dir() {
        let or = if inside.is_empty() { String::new() } else { format!(", nor {inside}") };
        return Err(format!("{} has no {program} with a vendor folder{or}", sources.display()).into());
    }
    // Done once it has this name.
    let (unpacked, begun) = (scratch.join("source"), scratch.join("source.part"));
    if !unpacked.is_dir() {
        println!("    unpacking {}", sources.join(inside).display());
        unpack(&sources, inside, &begun)?;
        fs::rename(begun, &unpacked)?;
    }
    if is_whole(&unpacked) {
        Ok(unpacked)
    } else {
        Err(format!("{} has no {program} with a vendor folder", sources.join(inside).display()).into())
    }
}

/// A file of a clone: mode, name of its object, path.
type Entry<'a> = (&'a str, &'a str, &'a str);

/// Takes a folder out of a bare clone. Objects that the clone lacks, large data of tests, are left out.
fn unpack(clone: &Path, inside: &str, into: &Path) -> Result<()> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(clone).args(arguments).env("GIT_NO_LAZY_FETCH", "1");
        command
    };
    let listed = process::capture(git(&["ls-tree", "-r", "-z", &format!("HEAD:{inside}")]))?;
    let listed = String::from_utf8(listed.stdout)?;
    let entries: Vec<Entry<'_>> = listed.split('\0').filter_map(entry).collect();
    let mut objects = git(&["cat-file", "--batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (questions, answers) = (objects.stdin.take(), objects.stdout.take());
    let (Some(mut questions), Some(answers)) = (questions, answers) else {
        return Err("git has no pipes".into());
    };
    std::thread::scope(|scope| -> Result<()> {
        // Both pipes are bounded: somebody reads while somebody writes.
        let asked = scope.spawn(|| {
            let asked = entries.iter().try_for_each(|(_, object, _)| writeln!(questions, "{object}"));
            drop(questions);
            asked
        });
        let mut answers = BufReader::new(answers);
        let written = entries.iter().try_for_each(|entry| write(&mut answers, entry, into));
        // Nobody waits for what nobody reads.
        drop(answers);
        let asked = asked.join().map_err(|_| "git was not asked")?;
        written.and_then(|()| Ok(asked?))
    })?;
    let status = objects.wait()?;
    if status.success() { Ok(()) } else { Err(format!("git cat-file ended with {status}").into()) }
}

/// Of `MODE blob OBJECT`, a tab and the path; nothing of what is no file.
fn entry(line: &str) -> Option<Entry<'_>> {
    let (about, path) = line.split_once('\t')?;
    let (mode, object) = about.split_once(" blob ")?;
    Some((mode, object, path))
}

/// Writes a file as git answers for it: `OBJECT blob BYTES`, a line's end, the bytes, a line's end; or `OBJECT missing`.
fn write(answers: &mut impl BufRead, (mode, object, path): &Entry<'_>, into: &Path) -> Result<()> {
    let mut line = String::new();
    answers.read_line(&mut line)?;
    if line.trim_end().ends_with(" missing") {
        return Ok(());
    }
    let bytes = line.trim_end().rsplit_once(' ').and_then(|(_, bytes)| bytes.parse().ok());
    let bytes: u64 = bytes.ok_or_else(|| format!("git says of {object}: {line}"))?;
    let mut content = Vec::new();
    answers.by_ref().take(bytes).read_to_end(&mut content)?;
    answers.read_exact(&mut [0])?;
    let path = into.join(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match *mode {
        "120000" => {
            // Left by a run that was ended.
            let _ = fs::remove_file(&path);
            symlink(String::from_utf8(content)?, &path)?;
        }
        "100755" => {
            fs::write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        _ => fs::write(&path, content)?,
    }
    Ok(())
}

/// Its release, 1.MINOR.
///
/// # Errors
/// The source does not say it.
pub fn minor(source: &Path) -> Result<u32> {
    let path = source.join("staging/src/k8s.io/component-base/version/base.go");
    let text = fs::read_to_string(&path)?;
    let found = text.lines().find_map(|line| {
        let (_, version) = line.split_once("DefaultKubeBinaryVersion")?.1.split_once('"')?;
        version.trim_end_matches('"').strip_prefix("1.")?.parse().ok()
    });
    found.ok_or_else(|| format!("{} names no release", path.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_sources_is_recognised_and_its_release_read() {
        let folder = process::target_dir().unwrap().join("kube-test").join(std::process::id().to_string());
        let scratch = folder.join("scratch");
        fs::create_dir_all(&folder).unwrap();
        let error = find(&KUBERNETES, &folder, &scratch).unwrap_err().to_string();
        assert!(error.contains(KUBERNETES.inside), "{error}");
        let whole = folder.join(KUBERNETES.inside);
        for below in ["cmd/kube-apiserver", "vendor", "staging/src/k8s.io/component-base/version"] {
            fs::create_dir_all(whole.join(below)).unwrap();
        }
        assert_eq!(find(&KUBERNETES, &folder, &scratch).unwrap(), whole);
        assert_eq!(find(&KUBERNETES, &whole, &scratch).unwrap(), whole);
        let base = whole.join("staging/src/k8s.io/component-base/version/base.go");
        fs::write(&base, "const (\n\t// about it\n\tDefaultKubeBinaryVersion = \"1.36\"\n)\n").unwrap();
        assert_eq!(minor(&whole).unwrap(), 36);
        fs::write(&base, "const ()\n").unwrap();
        assert!(minor(&whole).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn kubernetes_is_taken_out_of_a_clone_without_files() {
        let folder =
            process::target_dir().unwrap().join("kube-test").join(format!("bare-{}", std::process::id()));
        let (tree, clone) = (folder.join("tree"), folder.join("clone"));
        for below in ["cmd/kube-apiserver", "vendor"] {
            fs::create_dir_all(tree.join(KUBERNETES.inside).join(below)).unwrap();
            fs::write(tree.join(KUBERNETES.inside).join(below).join("a.go"), format!("package {below}\n\n"))
                .unwrap();
        }
        fs::write(tree.join("README.md"), "not of Kubernetes").unwrap();
        symlink("a.go", tree.join(KUBERNETES.inside).join("vendor/b.go")).unwrap();
        let git = |arguments: &[&str]| {
            let mut command = Command::new("git");
            command
                .args(["-c", "user.name=a", "-c", "user.email=a@b.example"])
                .args(arguments)
                .current_dir(&tree);
            process::run_quiet(&mut command).unwrap();
        };
        git(&["init", "--quiet"]);
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "all"]);
        git(&["clone", "--quiet", "--bare", ".", "../clone"]);
        let found = find(&KUBERNETES, &clone, &folder.join("scratch")).unwrap();
        assert_eq!(fs::read_to_string(found.join("vendor/b.go")).unwrap(), "package vendor\n\n");
        assert!(found.join("cmd/kube-apiserver/a.go").exists() && !found.join("README.md").exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
