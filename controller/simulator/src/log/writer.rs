//! Writes a log.

use controller_queue::{Act, Entry, Policy, QueueDef, TenantDef};
use controller_scheduler::Snapshot;
use proto_model::{Fabric, JobUid, QueueName, TenantName, Timestamp};

use super::{
    ActLine, CloseLine, EndLine, FORMAT, Header, JobLine, Line, NodeLine, PassLine, QueueLine, ServersLine,
    Sum, TenantLine, VERSION, digest,
};

/// Where lines go, each with its end.
type Sink<'a> = Box<dyn FnMut(&str) + Send + 'a>;

/// Writes lines as they happen.
pub struct Recorder<'a> {
    sink: Sink<'a>,
    sum: Sum,
    lines: u64,
}

impl<'a> Recorder<'a> {
    /// Begins a log of what happens on servers that are alike, or as `servers` says: the header goes to the sink at once. `document` is
    /// the fabric as canonical JSON, or null.
    #[must_use]
    pub fn new(
        fabric: &Fabric,
        (gpus_per_node, servers): (u32, Vec<ServersLine>),
        document: serde_json::Value,
        policy: &Policy,
        sink: impl FnMut(&str) + Send + 'a,
    ) -> Self {
        let header = Header {
            format: FORMAT.to_owned(),
            version: VERSION,
            fabric: fabric.name.clone(),
            digest: digest(fabric),
            gpus_per_node,
            servers,
            document,
            policy: policy.into(),
            sum: Sum::default(),
        };
        let mut recorder = Self { sink: Box::new(sink), sum: Sum::default(), lines: 0 };
        recorder.line(&Line::Header(header));
        recorder
    }

    /// Writes one line with its sum.
    pub fn line(&mut self, line: &Line) {
        // Nothing in a line can fail to be JSON: its keys are texts.
        if let Ok(text) = serde_json::to_string(line) {
            self.lines += 1;
            (self.sink)(&self.sum.seal(&text));
        }
    }

    /// A tenant comes, changes or goes.
    pub fn tenant(&mut self, at: Timestamp, tenant: &TenantName, def: Option<&TenantDef>) {
        self.line(&Line::Tenant(TenantLine::new(at, tenant, def)));
    }

    /// A queue comes, changes or goes.
    pub fn queue(&mut self, at: Timestamp, tenant: &TenantName, queue: &QueueName, def: Option<&QueueDef>) {
        self.line(&Line::Queue(QueueLine::new(at, tenant, queue, def)));
    }

    /// A job is queued, changes, or runs already.
    pub fn job(&mut self, at: Timestamp, entry: &Entry, snapshot: &Snapshot) {
        self.line(&Line::Job(Box::new(JobLine::new(at, entry, snapshot))));
    }

    /// An attempt of a job has ended.
    pub fn end(&mut self, at: Timestamp, uid: JobUid, whole: bool) {
        self.line(&Line::End(EndLine { at: at.0, uid: uid.to_string(), whole }));
    }

    /// A server takes jobs, or no longer does.
    pub fn node(&mut self, at: Timestamp, node: &str, open: bool) {
        self.line(&Line::Node(NodeLine { at: at.0, node: node.to_owned(), open }));
    }

    /// A look at the queue, and what was decided.
    pub fn pass(&mut self, at: Timestamp, depth: usize, acts: &[Act]) {
        let acts: Vec<ActLine> = acts.iter().map(ActLine::from).collect();
        self.line(&Line::Pass(PassLine { at: at.0, depth: depth as u64, acts }));
    }

    /// Writes the last line; without it a reader takes the log for cut off.
    pub fn close(&mut self, at: Timestamp) {
        self.line(&Line::Close(CloseLine { at: at.0, lines: self.lines }));
    }
}
