//! One pass over a server: the tree that is read, and what was found to be wrong with it.

use crate::{
    finding::{Finding, FindingKind},
    sysfs::Tree,
};

/// Bytes of a text that is taken for an attribute's value.
const LINE_MAX: usize = 128;

/// A pass over a server that is under way.
#[derive(Debug)]
pub struct DiscoveryPass<'a> {
    /// The file system of the server that is read.
    pub tree: &'a Tree,
    /// The findings so far; more are added as files are read.
    pub findings: &'a mut Vec<Finding>,
}

impl DiscoveryPass<'_> {
    /// Adds a finding of this kind about `subject`.
    pub fn find(&mut self, kind: FindingKind, subject: &str, message: impl Into<String>) {
        self.findings.push(Finding::new(kind, subject, message));
    }

    /// An attribute of one printable line; empty where it is absent. What is there and is no such line is a finding about `subject`.
    pub fn line(&mut self, subject: &str, path: &str) -> String {
        let Some(bytes) = self.tree.bytes(path) else { return String::new() };
        let text = std::str::from_utf8(&bytes).map(str::trim);
        match text {
            Ok(text) if text.len() <= LINE_MAX && !text.chars().any(char::is_control) => text.to_owned(),
            _ => {
                let text =
                    format!("/{path} is not one printable line of at most {LINE_MAX} bytes; it is left out");
                self.find(FindingKind::Unreadable, subject, text);
                String::new()
            }
        }
    }

    /// An attribute that is a number; `None` where it is absent. What is there and is no number is a finding about `subject`.
    pub fn number<T: std::str::FromStr>(&mut self, subject: &str, path: &str) -> Option<T> {
        let text = self.line(subject, path);
        if text.is_empty() {
            return None;
        }
        let number = text.parse().ok();
        if number.is_none() {
            self.find(
                FindingKind::Unreadable,
                subject,
                format!("/{path} says '{text}', which is not a number"),
            );
        }
        number
    }

    /// Text from elsewhere (netlink) under the same rule as [`DiscoveryPass::line`].
    pub fn reported(&mut self, subject: &str, what: &str, text: &str) -> String {
        let text = text.trim();
        if text.len() <= LINE_MAX && !text.chars().any(char::is_control) {
            return text.to_owned();
        }
        self.find(
            FindingKind::Unreadable,
            subject,
            format!("{what} is not one printable line; it is left out"),
        );
        String::new()
    }

    /// The last part of where a link leads; empty where there is none.
    #[must_use]
    pub fn leads_to(&self, path: &str) -> String {
        let target = std::fs::read_link(self.tree.at(path)).ok();
        let name = target.as_deref().and_then(std::path::Path::file_name).map(|name| name.to_string_lossy());
        let fits = |name: &str| name.len() <= LINE_MAX && !name.chars().any(char::is_control);
        name.filter(|name| fits(name)).map(std::borrow::Cow::into_owned).unwrap_or_default()
    }
}
