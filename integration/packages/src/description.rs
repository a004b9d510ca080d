//! The words in which a package is described.

/// One package, as data; both writers read it.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// Its name, of Debian and of RPM.
    pub name: &'static str,
    /// What it is, in a few words.
    pub summary: &'static str,
    /// What it is for, in a sentence or two, without line breaks.
    pub about: &'static str,
    /// Other packages that it does not work without.
    pub needs: &'static [Need],
    /// Other packages without which a part of it does not work, which not every machine has.
    pub recommends: &'static [Need],
    /// What is in it.
    pub items: &'static [Item],
    /// What of it runs as a service.
    pub service: Option<Service>,
}

/// Another package, by its name in each world.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// In Debian: a relation as its control files have it.
    pub debian: &'static str,
    /// In RPM: a name or a path.
    pub rpm: &'static str,
}

/// One file, link or folder of a package.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// Where it comes from.
    pub from: Source,
    /// Where it goes, with a slash in front. For several files: their folder.
    pub to: &'static str,
    /// Its permissions.
    pub mode: u32,
    /// An administrator may change it, and an upgrade leaves that alone.
    pub config: bool,
}

/// Where a file of a package comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// A program, stripped.
    Program(&'static str),
    /// A shared library, stripped.
    Library(&'static str),
    /// A file of the repository.
    Repository(&'static str),
    /// All files of a folder of the repository, without those below it.
    RepositoryFolder(&'static str),
    /// The man pages whose names begin so, compressed; they go into the section of their name.
    ManPages(&'static str),
    /// The completion script of railctl for a shell.
    Completion(&'static str),
    /// A link to this.
    Link(&'static str),
    /// An empty folder.
    Folder,
}

/// What of a package runs as a service.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    /// Its units.
    pub units: &'static [&'static str],
    /// The system's user that it runs as, which the package makes by `sysusers.d` and which goes with a purge.
    pub user: Option<&'static str>,
    /// The file in `tmpfiles.d` that makes its folders.
    pub tmpfiles: Option<&'static str>,
    /// The folder of its state, which stays when the package is removed and goes with a purge.
    pub state: Option<&'static str>,
    /// Ids that nobody else may have.
    pub ids: Option<Range>,
}

/// A line of `/etc/subuid` and `/etc/subgid`.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// Whose they are.
    pub owner: &'static str,
    /// The first of them.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl Package {
    /// Whether it has no program, so that it is for every machine.
    #[must_use]
    pub fn is_for_all(&self) -> bool {
        !self.items.iter().any(|item| matches!(item.from, Source::Program(_) | Source::Library(_)))
    }
}
