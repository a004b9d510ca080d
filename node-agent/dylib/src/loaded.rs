//! A library, loaded, and what is said where it cannot be.

use std::path::Path;

/// What is known of a library before it is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// File names under which it is looked for, the usual one first.
    pub names: &'static [&'static str],
    /// Where it comes from, for who lacks it.
    pub from: &'static str,
    /// The oldest version that has what is needed, for who has an older one.
    pub needs: &'static str,
}

/// The library cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is not there, or cannot be loaded.
    #[error("{name} cannot be loaded: {source} ({from})")]
    Load {
        /// The file names that were looked for.
        name: String,
        /// What the dynamic loader answered.
        source: libloading::Error,
        /// Which package or driver the library comes with.
        from: &'static str,
    },
    /// It lacks a function.
    #[error("{name} has no {symbol}: {needs}")]
    Symbol {
        /// Name of the library that was loaded.
        name: String,
        /// Name of the function that it lacks.
        symbol: &'static str,
        /// The version that has it.
        needs: &'static str,
    },
}

/// A library that stays loaded as long as this lives.
pub struct Loaded {
    name: String,
    about: About,
    library: libloading::Library,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Loaded({})", self.name)
    }
}

impl Loaded {
    /// Loads the system's library, or the file that stands in for it.
    ///
    /// # Errors
    /// It is not there; the answer is that of its usual name.
    pub fn open(about: About, path: Option<&Path>) -> Result<Self, LoadError> {
        let given = path.map(|path| path.display().to_string());
        let names: Vec<&str> = given.as_deref().map_or_else(|| about.names.to_vec(), |path| vec![path]);
        let mut first = None;
        for name in names {
            // SAFETY: what runs while it is loaded is the library's own start, which has no conditions for the libraries that are named
            // here (`About`); whoever names another file vouches for it as for any program that he starts.
            match unsafe { libloading::Library::new(name) } {
                Ok(library) => return Ok(Self { name: name.to_owned(), about, library }),
                Err(source) => _ = first.get_or_insert((name.to_owned(), source)),
            }
        }
        let (name, source) = first
            .unwrap_or_else(|| ("a library without a name".to_owned(), libloading::Error::DlOpenUnknown));
        Err(LoadError::Load { name, source, from: about.from })
    }

    /// The name by which it was found.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it has a symbol; nothing is called.
    #[must_use]
    pub fn has(&self, symbol: &str) -> bool {
        // SAFETY: the symbol is only looked for; its address is neither called nor read.
        unsafe { self.library.get::<*const ()>(symbol.as_bytes()) }.is_ok()
    }

    /// A function that only newer versions have.
    ///
    /// # Safety
    /// `T` is a pointer to a function with the signature that this symbol has in every version of the library, and what is given is not
    /// called after the library is dropped.
    #[must_use]
    pub unsafe fn maybe<T: Copy>(&self, symbol: &'static str) -> Option<T> {
        // SAFETY: passed on to the caller.
        unsafe { self.library.get::<T>(symbol.as_bytes()) }.ok().map(|found| *found)
    }

    /// A function that every version has.
    ///
    /// # Errors
    /// It is not there.
    ///
    /// # Safety
    /// As for [`Loaded::maybe`].
    pub unsafe fn find<T: Copy>(&self, symbol: &'static str) -> Result<T, LoadError> {
        // SAFETY: passed on to the caller.
        let found = unsafe { self.maybe(symbol) };
        found.ok_or_else(|| LoadError::Symbol { name: self.name.clone(), symbol, needs: self.about.needs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_int;

    const LIBC: About =
        About { names: &["libnowhere.so.9", "libc.so.6"], from: "every server", needs: "any" };

    crate::functions! {
        struct Functions {
            abs: unsafe extern "C" fn(c_int) -> c_int = "abs",
        }
        maybe {
            none: unsafe extern "C" fn() = "rail_no_such_function",
        }
    }

    #[test]
    fn a_library_is_found_by_the_first_name_that_is_there() {
        let library = Loaded::open(LIBC, None).unwrap();
        assert_eq!(library.name(), "libc.so.6");
        assert!(library.has("abs") && !library.has("rail_no_such_function"));
        // SAFETY: `abs` has this signature in the standard of C; the other is not there.
        let functions = unsafe { Functions::find(&library) }.unwrap();
        // SAFETY: it takes any number but the smallest.
        assert_eq!(unsafe { (functions.abs)(-7) }, 7);
        assert!(functions.none.is_none());
    }

    #[test]
    fn what_is_absent_is_named_with_what_to_install() {
        let about =
            About { names: &["libnowhere.so.9", "libnowhere.so.8"], from: "install nowhere", needs: "9" };
        let error = Loaded::open(about, None).unwrap_err().to_string();
        assert!(
            error.starts_with("libnowhere.so.9 cannot be loaded: ") && error.ends_with("(install nowhere)"),
            "{error}"
        );
        let error = Loaded::open(LIBC, Some("/nowhere/x.so".as_ref())).unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/x.so cannot"), "{error}");
        let library = Loaded::open(LIBC, None).unwrap();
        // SAFETY: it is not there, so it is not called.
        let error = unsafe { library.find::<unsafe extern "C" fn()>("rail_none") }.unwrap_err();
        assert_eq!(error.to_string(), "libc.so.6 has no rail_none: any");
    }
}
