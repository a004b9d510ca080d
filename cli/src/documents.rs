//! Documents in files: read strictly, checked as the controller would check them, every finding with its place.

mod locate;
pub mod script;

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use prost_reflect::DynamicMessage;
use proto_manifest::{Format, MAX_TEXT, Registry};
use proto_model::ReasonCode;
use proto_rpc::{RpcError, Violation};
use proto_wire::{convert::check_job_name, v1};

use crate::error::Error;

/// What a document describes.
#[derive(Debug, Clone, PartialEq)]
pub enum Resource {
    /// A job to submit, or its elements if it is an array.
    Job(Box<v1::Job>),
    /// The fabric of the cluster.
    Fabric(v1::Fabric),
    /// A tenant of the cluster.
    Tenant(v1::Tenant),
    /// A queue of a tenant.
    Queue(v1::Queue),
    /// A service class of the cluster.
    ServiceClass(v1::ServiceClass),
    /// A license of the cluster.
    License(v1::License),
    /// A switch of the fabric.
    Switch(v1::Switch),
    /// A reservation of servers.
    Reservation(v1::Reservation),
    /// A schedule of a tenant.
    Schedule(Box<v1::Schedule>),
    /// A secret of a tenant, with its values.
    Secret(Box<v1::Secret>),
    /// A config of a tenant, with its values.
    Config(Box<v1::Config>),
    /// A webhook of a tenant.
    Webhook(Box<v1::Webhook>),
    /// Something that is not made by a file; its kind.
    Other(String),
}

/// A file's text and its name in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// As the user wrote it; `<stdin>` for standard input.
    pub name: String,
    /// The bytes as they were read.
    pub text: Vec<u8>,
    format: FormatOf,
    /// What relative paths in it are relative to.
    folder: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FormatOf {
    Yaml,
    Json,
}

/// One document of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its number in the source, from 0.
    pub index: usize,
    /// The resource that it describes, checked.
    pub resource: Resource,
}

impl Source {
    /// Reads a file, or standard input for `-`; larger ones than any document can be are not read to their end.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut text = Vec::new();
        let limit = MAX_TEXT as u64 + 1;
        let read = if path == Path::new("-") {
            std::io::stdin().lock().take(limit).read_to_end(&mut text)
        } else {
            std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut text))
        };
        let name = if path == Path::new("-") { "<stdin>".to_owned() } else { path.display().to_string() };
        // A file that is not there is a mistake on the command line, as a wrong flag is.
        let failed = |error: std::io::Error| Error::Usage(format!("cannot read {name}: {error}"));
        read.map_err(failed)?;
        let size =
            std::fs::metadata(path).map_or(text.len() as u64, |meta| meta.len().max(text.len() as u64));
        if text.len() > MAX_TEXT {
            return Err(Error::Document(format!(
                "{name}:1:1: has {size} bytes; at most {MAX_TEXT} are read"
            )));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = std::path::absolute(folder).map_err(failed)?;
        Ok(Self { folder, ..Self::of(&name, text) })
    }

    /// A text by its name. JSON is recognised by the name, or by its first character where the name does not say.
    #[must_use]
    pub fn of(name: &str, text: Vec<u8>) -> Self {
        let braced = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        let json =
            Path::new(name).extension().is_some_and(|end| end == "json") || (name == "<stdin>" && braced);
        let format = if json { FormatOf::Json } else { FormatOf::Yaml };
        Self { name: name.to_owned(), text, format, folder: PathBuf::from("/") }
    }

    /// All documents; each is checked.
    ///
    /// # Errors
    /// [`Error::Document`] with every finding and its place.
    pub fn documents(&self) -> Result<Vec<Document>, Error> {
        let format = if self.format == FormatOf::Json { Format::Json } else { Format::Yaml };
        let read = Registry::rail_v1().read(&self.name, &self.text, format);
        let read = read.map_err(|findings| Error::Document(findings.to_string()))?;
        let mut documents = Vec::new();
        let mut findings = Vec::new();
        for (index, document) in read.into_iter().enumerate() {
            let mut resource = typed(&document.kind, &document.message)?;
            match &mut resource {
                Resource::Job(job) => self.settle_working_dir(job.spec.as_mut()),
                Resource::Schedule(schedule) => {
                    let template = schedule.spec.as_mut().and_then(|spec| spec.job_template.as_mut());
                    self.settle_working_dir(template.and_then(|template| template.spec.as_mut()));
                }
                _ => {}
            }
            findings.extend(self.check(index, &resource));
            documents.push(Document { index, resource });
        }
        if findings.is_empty() { Ok(documents) } else { Err(Error::Document(findings.join("\n"))) }
    }

    /// The one job of the file.
    ///
    /// # Errors
    /// [`Error::Document`] with every finding and its place, and if the file is not exactly one job.
    pub fn job(&self) -> Result<v1::Job, Error> {
        let mut documents = self.documents()?.into_iter();
        match (documents.next().map(|first| first.resource), documents.len()) {
            (Some(Resource::Job(job)), 0) => Ok(*job),
            (Some(Resource::Job(_)), more) => Err(Error::Document(format!(
                "{}: {} documents; one job is submitted at a time (`railctl apply -f` takes several)",
                self.name,
                more + 1
            ))),
            (Some(other), _) => Err(Error::Document(format!(
                "{}:1:1: kind: is {}, a Job is expected here; `railctl apply -f` takes it",
                self.name,
                other.kind()
            ))),
            (None, _) => Err(Error::Document(format!("{}:1:1: the file is empty", self.name))),
        }
    }

    /// A relative `workingDir` is relative to the file: servers know nothing of where it was written.
    fn settle_working_dir(&self, spec: Option<&mut v1::JobSpec>) {
        let dir = match spec.and_then(|spec| spec.work.as_mut()) {
            Some(v1::job_spec::Work::Command(command)) => &mut command.working_dir,
            Some(v1::job_spec::Work::Allocation(held)) => &mut held.working_dir,
            Some(v1::job_spec::Work::Collective(_)) | None => return,
        };
        if !dir.is_empty() && !dir.starts_with('/') {
            let settled: PathBuf = self.folder.join(&*dir).components().collect();
            *dir = settled.display().to_string();
        }
    }

    /// What the controller's own conversion finds, with its place in the text.
    fn check(&self, index: usize, resource: &Resource) -> Vec<String> {
        let errors = match resource {
            Resource::Job(job) => job_errors(job),
            Resource::Fabric(fabric) => errors_of(proto_model::Fabric::try_from(fabric.clone()).err()),
            Resource::Queue(queue) => errors_of(proto_model::Queue::try_from(owned(queue)).err()),
            Resource::ServiceClass(one) => errors_of(proto_model::ServiceClass::try_from(one.clone()).err()),
            Resource::License(one) => errors_of(proto_model::License::try_from(one.clone()).err()),
            Resource::Switch(one) => errors_of(proto_model::SwitchConfig::try_from(one.clone()).err()),
            Resource::Reservation(one) => errors_of(proto_model::Reservation::try_from(one.clone()).err()),
            Resource::Schedule(one) => errors_of(proto_model::JobSchedule::try_from(in_tenant(one)).err()),
            Resource::Secret(one) => {
                let mut one = v1::Secret { status: None, ..one.as_ref().clone() };
                of_some_tenant(one.metadata.as_mut());
                errors_of(proto_model::Values::try_from(one).err())
            }
            Resource::Config(one) => {
                let mut one = v1::Config { status: None, ..one.as_ref().clone() };
                of_some_tenant(one.metadata.as_mut());
                errors_of(proto_model::Values::try_from(one).err())
            }
            Resource::Webhook(one) => errors_of(proto_model::Webhook::try_from(anybodys(one)).err()),
            Resource::Tenant(_) | Resource::Other(_) => Vec::new(),
        };
        errors.into_iter().map(|(field, message)| self.located(index, &field, &message)).collect()
    }

    /// A finding as `FILE:LINE:COLUMN: FIELD: MESSAGE`; without the place if the field is not in the text.
    fn located(&self, index: usize, field: &str, message: &str) -> String {
        let at = locate::field(&String::from_utf8_lossy(&self.text), index, field);
        // Some causes begin with their field.
        let message = message.strip_prefix(field).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(message);
        let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
        match at {
            Some((line, column)) => format!("{}:{line}:{column}: {field}{message}", self.name),
            None => format!("{}: {field}{message}", self.name),
        }
    }

    /// `FILE:LINE:COLUMN: CODE: MESSAGE` of a fault in what a document means, at the place where its subject is named.
    #[must_use]
    pub fn finding(&self, index: usize, finding: &proto_model::Reason) -> String {
        let message = format!("{}: {}", finding.code, finding.message);
        match finding.scope.split_once('/') {
            Some((_, name)) => self.named(index, name, &message),
            None => format!("{}: {message}", self.name),
        }
    }

    /// Gives the fields that the controller complains about their place in the file.
    #[must_use]
    pub fn place(&self, index: usize, error: Error) -> Error {
        let Error::Rpc { doing, error } = error else { return error };
        let mut placed: RpcError = *error;
        if let Some(head) = head_of(&placed) {
            placed.message = head;
        }
        for one in placed.violations.iter_mut().filter(|one| !one.field.is_empty()) {
            one.message = match about(one) {
                About::Field(field) => self.located(index, field, &one.message),
                About::Thing(name) => self.named(index, name, &one.message),
            };
            one.field.clear();
        }
        Error::Rpc { doing, error: Box::new(placed) }
    }

    /// `FILE:LINE:COLUMN: MESSAGE` with the place at which a thing is named first.
    fn named(&self, index: usize, name: &str, message: &str) -> String {
        match locate::name(&String::from_utf8_lossy(&self.text), index, name) {
            Some((line, column)) => format!("{}:{line}:{column}: {message}", self.name),
            None => format!("{}: {message}", self.name),
        }
    }
}

/// What a complaint of the controller is about.
#[derive(Debug, PartialEq, Eq)]
enum About<'a> {
    /// A field of the document.
    Field(&'a str),
    /// Something that the document names.
    Thing(&'a str),
}

/// A complaint names a field, or is a cause: a code before the message, and the scope in place of the field.
fn about(one: &Violation) -> About<'_> {
    let top = one.field.split(['.', '[']).next().unwrap_or_default();
    if ["spec", "metadata", "apiVersion", "kind", "status"].contains(&top) {
        return About::Field(&one.field);
    }
    match ReasonCode::from_text(one.message.split(':').next().unwrap_or_default()) {
        ReasonCode::NodeCount => About::Field("spec.gang.nodes"),
        ReasonCode::GpuShape => About::Field("spec.gang.gpusPerNode"),
        ReasonCode::CpuShape => About::Field("spec.gang.cpusPerNode"),
        ReasonCode::MemoryShape => About::Field("spec.gang.memoryPerNode"),
        ReasonCode::GpuModelShape => About::Field("spec.placement.gpuModel"),
        ReasonCode::QuotaTooSmall | ReasonCode::GangShape | ReasonCode::NoNodes => About::Field("spec.gang"),
        ReasonCode::RailCount
        | ReasonCode::RailShape
        | ReasonCode::RailDead
        | ReasonCode::NoRails
        | ReasonCode::RailAlignment => About::Field("spec.rails.required"),
        _ => About::Thing(one.field.split_once('/').map_or(one.field.as_str(), |(_, name)| name)),
    }
}

/// The message without the complaints that it repeats.
fn head_of(error: &RpcError) -> Option<String> {
    let first = error.violations.first()?;
    let reported = first.message.split_once(": ").map_or(first.message.as_str(), |(_, reported)| reported);
    let head = error.message.split(reported).next().filter(|head| head.len() < error.message.len())?;
    let head = head.trim_end().trim_end_matches(':');
    (!head.is_empty()).then(|| head.to_owned())
}

impl Resource {
    /// The kind as documents write it.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::Job(_) => "Job",
            Self::Fabric(_) => "Fabric",
            Self::Tenant(_) => "Tenant",
            Self::Queue(_) => "Queue",
            Self::ServiceClass(_) => "ServiceClass",
            Self::License(_) => "License",
            Self::Switch(_) => "Switch",
            Self::Secret(_) => "Secret",
            Self::Config(_) => "Config",
            Self::Webhook(_) => "Webhook",
            Self::Reservation(_) => "Reservation",
            Self::Schedule(_) => "Schedule",
            Self::Other(kind) => kind,
        }
    }
}

fn typed(kind: &str, message: &DynamicMessage) -> Result<Resource, Error> {
    let damaged = |error: prost_reflect::prost::DecodeError| Error::Document(format!("{kind}: {error}"));
    Ok(match kind {
        "Job" => Resource::Job(Box::new(message.transcode_to().map_err(damaged)?)),
        "Fabric" => Resource::Fabric(message.transcode_to().map_err(damaged)?),
        "Tenant" => Resource::Tenant(message.transcode_to().map_err(damaged)?),
        "Queue" => Resource::Queue(message.transcode_to().map_err(damaged)?),
        "ServiceClass" => Resource::ServiceClass(message.transcode_to().map_err(damaged)?),
        "License" => Resource::License(message.transcode_to().map_err(damaged)?),
        "Switch" => Resource::Switch(message.transcode_to().map_err(damaged)?),
        "Reservation" => Resource::Reservation(message.transcode_to().map_err(damaged)?),
        "Schedule" => Resource::Schedule(Box::new(message.transcode_to().map_err(damaged)?)),
        "Secret" => Resource::Secret(Box::new(message.transcode_to().map_err(damaged)?)),
        "Config" => Resource::Config(Box::new(message.transcode_to().map_err(damaged)?)),
        "Webhook" => Resource::Webhook(Box::new(message.transcode_to().map_err(damaged)?)),
        other => Resource::Other(other.to_owned()),
    })
}

/// A queue whose tenant is said elsewhere is checked under any.
fn owned(queue: &v1::Queue) -> v1::Queue {
    let mut queue = queue.clone();
    if let Some(metadata) = queue.metadata.as_mut().filter(|metadata| metadata.tenant.is_empty()) {
        metadata.tenant.push_str("default");
    }
    queue
}

/// The same of a schedule.
fn in_tenant(schedule: &v1::Schedule) -> v1::Schedule {
    let mut schedule = schedule.clone();
    schedule.status = None;
    if let Some(metadata) = schedule.metadata.as_mut().filter(|metadata| metadata.tenant.is_empty()) {
        metadata.tenant.push_str("default");
    }
    schedule
}

/// The same of a webhook.
fn anybodys(webhook: &v1::Webhook) -> v1::Webhook {
    let mut webhook = webhook.clone();
    webhook.status = None;
    of_some_tenant(webhook.metadata.as_mut());
    webhook
}

fn of_some_tenant(metadata: Option<&mut v1::Metadata>) {
    if let Some(metadata) = metadata.filter(|metadata| metadata.tenant.is_empty()) {
        metadata.tenant.push_str("default");
    }
}

fn job_errors(job: &v1::Job) -> Vec<(String, String)> {
    let Some(spec) = job.spec.clone() else { return vec![("spec".to_owned(), "is required".to_owned())] };
    let mut errors = Vec::new();
    match proto_model::JobSpec::try_from(spec) {
        Err(wrong) => errors = errors_of(Some(wrong)),
        Ok(spec) => {
            let name = job.metadata.as_ref().and_then(|of| proto_model::JobName::new(&of.name).ok());
            errors.extend(name.map_or_else(Vec::new, |name| errors_of(check_job_name(&name, &spec).err())));
        }
    }
    errors.into_iter().map(|(field, message)| (format!("spec.{field}"), message)).collect()
}

fn errors_of(errors: Option<proto_wire::FieldErrors>) -> Vec<(String, String)> {
    errors
        .map(|errors| errors.0)
        .unwrap_or_default()
        .into_iter()
        .map(|one| (one.field, one.message))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "apiVersion: rail/v1\nkind: Job\nmetadata:\n  name: a\nspec:\n  gang:\n    nodes: 2\n    gpusPerNode: 1\n  command:\n    argv: [\"true\"]\n";

    fn read(name: &str, text: &str) -> Result<v1::Job, Error> {
        Source::of(name, text.as_bytes().to_vec()).job()
    }

    #[test]
    fn a_job_is_read() {
        let job = read("job.yaml", JOB).unwrap();
        assert_eq!(job.spec.unwrap().gang.unwrap().nodes, 2);
        let json = r#"{"apiVersion": "rail/v1", "kind": "Job", "metadata": {"name": "a"},
            "spec": {"gang": {"nodes": 2}, "command": {"argv": ["true"]}}}"#;
        assert!(read("<stdin>", json).is_ok() && read("job.json", json).is_ok());
    }

    #[test]
    fn what_is_wrong_has_file_line_column_and_field() {
        let cases = [
            (JOB.replace("nodes: 2", "nodes: 0"), "job.yaml:7:", "spec.gang.nodes"),
            (JOB.replace("nodes: 2", "nodes: -1"), "job.yaml:7:", "spec.gang.nodes"),
            (JOB.replace("gpusPerNode", "gpusPerNod"), "job.yaml:8:5:", "gpusPerNode"),
            (JOB.replace("nodes: 2", "nodes: two"), "job.yaml:7:", "spec.gang.nodes"),
            (JOB.replace("kind: Job", "kind: Jop"), "job.yaml:2:", "Job"),
        ];
        for (text, place, word) in cases {
            let error = read("job.yaml", &text).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
            let reported = error.to_string();
            assert!(reported.starts_with(place) && reported.contains(word), "{reported}");
        }
    }

    #[test]
    fn one_job_is_one_job() {
        let two = format!("{JOB}---\n{JOB}");
        assert!(read("j", &two).unwrap_err().to_string().contains("2 documents"));
        let fabric = "apiVersion: rail/v1\nkind: Fabric\nmetadata: {name: f}\nspec: {rails: [{index: 0, name: r}], leaves: [{name: l, rail: 0, pod: p}]}\n";
        assert!(
            read("f", fabric).unwrap_err().to_string().contains("a Job is expected"),
            "{:?}",
            read("f", fabric)
        );
        assert_eq!(read("e", "").unwrap_err().exit_code(), 2);
    }

    #[test]
    fn what_the_controller_says_of_a_field_gets_its_place() {
        let source = Source::of("job.yaml", JOB.as_bytes().to_vec());
        let error = RpcError::new(proto_rpc::ErrorClass::Infeasible, "X", "no")
            .with_violation("spec.gang.gpusPerNode", "too many");
        let placed = source.place(0, Error::Rpc { doing: "submit".into(), error: Box::new(error) });
        assert_eq!(placed.lines()[1], "  job.yaml:8:18: spec.gang.gpusPerNode: too many");
        let text = "the job could never start here: it asks for 9 GPUs, n0 has 4; the quota is 2";
        let error = RpcError::new(proto_rpc::ErrorClass::Infeasible, "NEVER_STARTS", text)
            .with_violation("node/n0", "GpuShape: it asks for 9 GPUs, n0 has 4")
            .with_violation("NodeCount", "NodeCount: too many");
        let placed = source.place(0, Error::Rpc { doing: "submit".into(), error: Box::new(error) });
        let expected = [
            "error: submit: the job could never start here",
            "  job.yaml:8:18: spec.gang.gpusPerNode: GpuShape: it asks for 9 GPUs, n0 has 4",
            "  job.yaml:7:12: spec.gang.nodes: NodeCount: too many",
        ];
        assert_eq!(placed.lines(), expected);
    }

    #[test]
    fn what_the_controller_says_of_a_thing_is_placed_where_it_is_named() {
        let text = "spec:\n  leaves:\n  - {name: a, rail: 0}\n  - {name: b, rail: 7}\n";
        let source = Source::of("f.yaml", text.as_bytes().to_vec());
        let error = RpcError::new(
            proto_rpc::ErrorClass::Invalid,
            "FABRIC",
            "the fabric has 1 faults: leaf 'b' is on rail 7",
        )
        .with_violation("leaf/b", "UnknownRail: leaf 'b' is on rail 7");
        let placed = source.place(0, Error::Rpc { doing: "apply".into(), error: Box::new(error) });
        let expected =
            ["error: apply: the fabric has 1 faults", "  f.yaml:4:12: UnknownRail: leaf 'b' is on rail 7"];
        assert_eq!(placed.lines(), expected);
    }

    #[test]
    fn a_relative_working_dir_is_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.yaml");
        let dir_of = |written: &str| {
            std::fs::write(&path, JOB.replace("argv:", &format!("workingDir: {written}\n    argv:")))
                .unwrap();
            match Source::open(&path).unwrap().job().unwrap().spec.unwrap().work {
                Some(v1::job_spec::Work::Command(command)) => PathBuf::from(command.working_dir),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(dir_of("."), folder.path());
        assert_eq!(dir_of("a/b"), folder.path().join("a/b"));
        assert_eq!(dir_of("/x"), Path::new("/x"));
    }

    #[test]
    fn the_samples_are_sound() {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
        let files = ["jobs", "fabrics", "queues", "schedules", "licenses", "secrets", "switches", "webhooks"]
            .map(|folder| std::fs::read_dir(deploy.join(folder)).unwrap());
        let mut kinds = Vec::new();
        for path in files.into_iter().flatten().map(|entry| entry.unwrap().path()) {
            if path.extension().is_some_and(|end| end == "yaml") {
                let documents = Source::open(&path).unwrap().documents().unwrap();
                kinds.extend(documents.iter().map(|one| one.resource.kind().to_owned()));
            }
        }
        kinds.sort();
        kinds.dedup();
        let all = [
            "Config",
            "Fabric",
            "Job",
            "License",
            "Queue",
            "Reservation",
            "Schedule",
            "Secret",
            "ServiceClass",
            "Switch",
            "Tenant",
            "Webhook",
        ];
        assert_eq!(kinds, all);
    }

    #[test]
    fn a_file_that_is_not_there_is_a_usage_error() {
        assert_eq!(Source::open(Path::new("/nonexistent/job.yaml")).unwrap_err().exit_code(), 2);
    }
}
