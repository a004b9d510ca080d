//! The ways in: one message of a known type, or documents that say themselves what they are.

use std::fmt;

use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor};

use crate::check::{Checker, describe};
use crate::finding::{Findings, Path, Position, Sink};
use crate::nearest::{list, nearest};
use crate::scalar::{Resolved, resolve};
use crate::tree::{Content, Entry, Format, Node, Stop, check_text};
use crate::{json, yaml};

/// Reads exactly one document into a message of the given type. `file` names the text in findings.
///
/// Never panics and never runs long, whatever the bytes are: this is also what a fuzzer calls.
///
/// # Errors
/// Everything that is wrong, at most [`MAX_FINDINGS`](crate::MAX_FINDINGS) and a count.
pub fn read_message(
    file: &str,
    text: &[u8],
    format: Format,
    descriptor: &MessageDescriptor,
) -> Result<DynamicMessage, Findings> {
    let mut sink = Sink::default();
    let documents = trees(text, format, &mut sink);
    if let Some(second) = documents.get(1) {
        sink.add(second.at, "", "a second document; expected one");
    }
    let message = match documents.first() {
        Some(node) => {
            let mut checker = Checker { sink: &mut sink, format, root: descriptor.clone() };
            checker.message(descriptor, node, &Path::Root)
        }
        None => {
            if sink.is_empty() {
                sink.add(Position::START, "", "the text is empty");
            }
            DynamicMessage::new(descriptor.clone())
        }
    };
    sink.finish(file, message)
}

/// The documents of a text; what cannot be read at all is reported and ends it.
fn trees(text: &[u8], format: Format, sink: &mut Sink) -> Vec<Node> {
    let read = check_text(text).and_then(|text| match format {
        Format::Yaml => yaml::read(text, sink),
        Format::Json => json::read(text, sink).map(|node| vec![node]),
    });
    match read {
        // `---` at the end, or between two others, makes a document that says nothing.
        Ok(documents) => documents.into_iter().filter(|node| !is_empty(node)).collect(),
        Err(Stop(at, what)) => {
            sink.add(at, "", what);
            Vec::new()
        }
    }
}

fn is_empty(node: &Node) -> bool {
    matches!(&node.value, Content::Plain(text) if resolve(text) == Resolved::Null)
}

/// A kind of document.
#[derive(Clone)]
pub struct Resource {
    /// Version of the API that the kind belongs to, for example `rail/v1`.
    pub api_version: String,
    /// Name of the kind, for example `Job`.
    pub kind: String,
    /// Descriptor of the protobuf message that a document of the kind becomes.
    pub descriptor: MessageDescriptor,
}

// By hand, here and below: the derived form walks the descriptor, without end where a message contains itself.
impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resource({}/{})", self.api_version, self.kind)
    }
}

/// One document that was read.
#[derive(Clone, PartialEq)]
pub struct Document {
    /// Where in the text the document begins.
    pub at: Position,
    /// Its kind, for example `Job`.
    pub kind: String,
    /// The document as a message of its kind.
    pub message: DynamicMessage,
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({} at {:?})", self.kind, self.at)
    }
}

/// The kinds of documents that may be given.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    resources: Vec<Resource>,
}

impl Registry {
    /// A registry that knows no kind.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kind of document with the message that it becomes.
    #[must_use]
    pub fn with(mut self, api_version: &str, kind: &str, descriptor: MessageDescriptor) -> Self {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        self.resources.push(Resource { api_version, kind, descriptor });
        self
    }

    /// Every resource of a package: each message that has `api_version`, `kind` and `metadata`.
    pub fn of_pool(pool: &DescriptorPool, package: &str) -> Self {
        let is_resource = |message: &MessageDescriptor| {
            let text =
                |name| message.get_field_by_name(name).is_some_and(|field| field.kind() == Kind::String);
            message.package_name() == package
                && message.parent_message().is_none()
                && text("api_version")
                && text("kind")
                && message.get_field_by_name("metadata").is_some()
        };
        let api_version = package.replace('.', "/");
        pool.all_messages()
            .filter(is_resource)
            .fold(Self::new(), |all, message| all.with(&api_version, message.name(), message.clone()))
    }

    /// The resources of rail.v1.
    pub fn rail_v1() -> Self {
        Self::of_pool(&proto_wire::descriptor_pool(), "rail.v1")
    }

    /// The kinds that are known, in the order in which they were added.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// Reads all documents of a text. Each says by `apiVersion` and `kind` what it is.
    ///
    /// # Errors
    /// Everything that is wrong with any document, at most [`MAX_FINDINGS`](crate::MAX_FINDINGS) and a count; then
    /// no document is answered.
    pub fn read(&self, file: &str, text: &[u8], format: Format) -> Result<Vec<Document>, Findings> {
        let mut sink = Sink::default();
        let trees = trees(text, format, &mut sink);
        if trees.is_empty() && sink.is_empty() {
            sink.add(Position::START, "", format!("no document; expected {}", list(self.kinds())));
        }
        let documents = trees.iter().filter_map(|node| self.document(node, format, &mut sink)).collect();
        sink.finish(file, documents)
    }

    fn kinds(&self) -> impl Iterator<Item = &str> {
        self.resources.iter().map(|resource| resource.kind.as_str())
    }

    fn document(&self, node: &Node, format: Format, sink: &mut Sink) -> Option<Document> {
        let Content::Map(entries) = &node.value else {
            if node.value != Content::Broken {
                let what = format!(
                    "expected a document with apiVersion, kind, metadata and spec; found {}",
                    describe(node)
                );
                sink.add(node.at, "", what);
            }
            return None;
        };
        let resource = self.resource(node.at, entries, sink)?;
        let mut checker = Checker { sink, format, root: resource.descriptor.clone() };
        let message = checker.message(&resource.descriptor, node, &Path::Root);
        Some(Document { at: node.at, kind: resource.kind.clone(), message })
    }

    /// What a document says it is.
    fn resource(&self, at: Position, entries: &[Entry], sink: &mut Sink) -> Option<&Resource> {
        let text = |names: [&str; 2]| {
            let entry = entries.iter().find(|entry| names.contains(&entry.key.as_str()))?;
            match &entry.value.value {
                Content::Plain(text) | Content::Quoted(text) => Some((entry.value.at, text.as_str())),
                _ => Some((entry.value.at, "")),
            }
        };
        let Some((kind_at, kind)) = text(["kind"; 2]) else {
            sink.add(at, "kind", format!("is missing; expected {}", list(self.kinds())));
            return None;
        };
        let mut found = self.resources.iter().filter(|resource| resource.kind == kind).peekable();
        if found.peek().is_none() {
            let hint = match nearest(kind, self.kinds()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("expected {}", list(self.kinds())),
            };
            sink.add(kind_at, "kind", format!("unknown kind \"{}\"; {hint}", crate::finding::Shown(kind)));
            return None;
        }
        let versions: Vec<&str> = found.clone().map(|resource| resource.api_version.as_str()).collect();
        let Some((version_at, version)) = text(["apiVersion", "api_version"]) else {
            sink.add(at, "apiVersion", format!("is missing; expected {}", list(versions)));
            return None;
        };
        let resource = found.find(|resource| resource.api_version == version);
        if resource.is_none() {
            let shown = crate::finding::Shown(version);
            sink.add(
                version_at,
                "apiVersion",
                format!("unknown version \"{shown}\"; expected {}", list(versions)),
            );
        }
        resource
    }
}
