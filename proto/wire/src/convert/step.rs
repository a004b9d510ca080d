//! Steps: what is asked for, each server's part of it, and what comes from whoever runs it.

use proto_model::{NodeName, StepInput, StepOrder, StepRequest, StepTerminal, StepWindow, StepWork};

use super::{FieldErrors, Fields, fields::range, job, limits::LIMITS, request::node_names};
use crate::v1;

/// `TERM` is not longer.
const KIND_MAX: usize = 64;
/// The kernel's last signal.
const SIGNALS: std::ops::RangeInclusive<u32> = 1..=64;

/// What is to be done: exactly one of a program, a signal and a port.
fn work(fields: &mut Fields, argv: Vec<String>, signal: u32, port: u32) -> StepWork {
    if [!argv.is_empty(), signal != 0, port != 0].into_iter().filter(|given| *given).count() > 1 {
        fields.fail("argv", "goes without `signal` and `port`, and each of these without the others");
    }
    if signal != 0 {
        if !SIGNALS.contains(&signal) {
            fields.fail("signal", format!("{signal} is not from 1 to 64"));
        }
        return StepWork::Signal(i32::try_from(signal).unwrap_or(i32::MAX));
    }
    if port != 0 {
        let number = u16::try_from(port);
        if number.is_err() {
            fields.fail("port", format!("{port} is not from 1 to {}", u16::MAX));
        }
        return StepWork::Connect(number.unwrap_or(u16::MAX));
    }
    if argv.first().is_none_or(String::is_empty) {
        fields.fail("argv", "must name a program");
    }
    for (index, argument) in argv.iter().enumerate().filter(|(_, argument)| argument.contains('\0')) {
        fields.fail(&format!("argv[{index}]"), format!("{argument:?} must not contain a NUL byte"));
    }
    StepWork::Run(argv)
}

/// The same for the wire: `argv`, `signal`, `port`.
fn work_to_wire(work: StepWork) -> (Vec<String>, u32, u32) {
    match work {
        StepWork::Run(argv) => (argv, 0, 0),
        StepWork::Signal(signal) => (Vec::new(), signal.unsigned_abs(), 0),
        StepWork::Connect(port) => (Vec::new(), 0, port.into()),
    }
}

fn folder(fields: &mut Fields, working_dir: &str) {
    if working_dir.contains('\0') {
        fields.fail("workingDir", "must not contain a NUL byte");
    }
    if working_dir.len() > LIMITS.command_bytes {
        fields.fail("workingDir", "is too long");
    }
}

fn size(fields: &mut Fields, field: &str, size: u32) -> u16 {
    u16::try_from(size).unwrap_or_else(|_| {
        fields.fail(field, format!("{size} is more than {}", u16::MAX));
        u16::MAX
    })
}

impl TryFrom<v1::StepWindow> for StepWindow {
    type Error = FieldErrors;

    fn try_from(wire: v1::StepWindow) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let rows = size(&mut fields, "rows", wire.rows);
        let columns = size(&mut fields, "columns", wire.columns);
        fields.finish(Some(Self { rows, columns }))
    }
}

impl From<StepWindow> for v1::StepWindow {
    fn from(window: StepWindow) -> Self {
        Self { rows: window.rows.into(), columns: window.columns.into() }
    }
}

impl TryFrom<v1::StepTerminal> for StepTerminal {
    type Error = FieldErrors;

    fn try_from(wire: v1::StepTerminal) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let window = fields.nest("window", wire.window.unwrap_or_default().try_into());
        let plain = wire.kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_+.".contains(&byte));
        if !plain || wire.kind.len() > KIND_MAX {
            fields.fail("kind", "must be at most 64 letters, digits and -_+.");
        }
        let kind = wire.kind;
        fields.finish(window.map(|window| Self { window, kind }))
    }
}

impl From<StepTerminal> for v1::StepTerminal {
    fn from(terminal: StepTerminal) -> Self {
        Self { window: Some(terminal.window.into()), kind: terminal.kind }
    }
}

impl TryFrom<v1::StepStart> for StepRequest {
    type Error = FieldErrors;

    /// Without the job: whose it is, is decided elsewhere.
    fn try_from(wire: v1::StepStart) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        folder(&mut fields, &wire.working_dir);
        let env = job::variables(&mut fields, "env", wire.env);
        job::program_size(&mut fields, "", &wire.argv, &env);
        let work = work(&mut fields, wire.argv, wire.signal, wire.port);
        let nodes = node_names(&mut fields, "nodes", &wire.nodes, LIMITS.nodes as usize);
        range(&mut fields, "ranksPerNode", wire.ranks_per_node, 0, Self::RANKS_PER_NODE);
        let terminal =
            wire.terminal.and_then(|terminal| fields.nest("terminal", StepTerminal::try_from(terminal)));
        let request = Self {
            work,
            env,
            working_dir: wire.working_dir,
            nodes,
            one: wire.one,
            ranks_per_node: wire.ranks_per_node.max(1),
            stdin: wire.stdin,
            terminal,
        };
        fields.finish(Some(request))
    }
}

impl TryFrom<v1::StepOrder> for StepOrder {
    type Error = FieldErrors;

    fn try_from(wire: v1::StepOrder) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        folder(&mut fields, &wire.working_dir);
        let env = job::variables(&mut fields, "env", wire.env);
        job::program_size(&mut fields, "", &wire.argv, &env);
        let work = work(&mut fields, wire.argv, wire.signal, wire.port);
        range(&mut fields, "ranksHere", wire.ranks_here, 1, StepRequest::RANKS_PER_NODE);
        if wire.first_rank.checked_add(wire.ranks_here).is_none_or(|end| end > wire.ranks) {
            fields.fail("ranks", format!("{} are fewer than those of this server", wire.ranks));
        }
        if wire.node_index >= wire.nodes {
            fields.fail("nodeIndex", format!("{} is not below {}", wire.node_index, wire.nodes));
        }
        if wire.terminal.is_some() && wire.ranks_here != 1 {
            fields.fail("terminal", "belongs to one process");
        }
        let terminal =
            wire.terminal.and_then(|terminal| fields.nest("terminal", StepTerminal::try_from(terminal)));
        let first_node = fields.take("firstNode", NodeName::new(&wire.first_node));
        let order = first_node.map(|first_node| Self {
            id: wire.id,
            first_node,
            work,
            env,
            working_dir: wire.working_dir,
            stdin: wire.stdin,
            terminal,
            first_rank: wire.first_rank,
            ranks_here: wire.ranks_here,
            ranks: wire.ranks,
            nodes: wire.nodes,
            node_index: wire.node_index,
        });
        fields.finish(order)
    }
}

impl From<StepOrder> for v1::StepOrder {
    fn from(order: StepOrder) -> Self {
        let (argv, signal, port) = work_to_wire(order.work);
        Self {
            argv,
            signal,
            port,
            env: order.env.into_iter().collect(),
            working_dir: order.working_dir,
            stdin: order.stdin,
            terminal: order.terminal.map(Into::into),
            first_rank: order.first_rank,
            ranks_here: order.ranks_here,
            ranks: order.ranks,
            nodes: order.nodes,
            node_index: order.node_index,
            id: order.id,
            first_node: order.first_node.to_string(),
        }
    }
}

impl TryFrom<v1::StepInput> for StepInput {
    type Error = FieldErrors;

    fn try_from(wire: v1::StepInput) -> Result<Self, FieldErrors> {
        use v1::step_input::What;
        let mut fields = Fields::default();
        let input = fields.present("what", wire.what).and_then(|what| match what {
            What::Data(data) if data.len() > StepRequest::CHUNK => {
                let message = format!("has {} bytes; at most {} are allowed", data.len(), StepRequest::CHUNK);
                fields.fail("data", message);
                None
            }
            What::Data(data) => Some(Self::Data(data)),
            What::EndOfInput(_) => Some(Self::EndOfInput),
            What::Signal(signal) if SIGNALS.contains(&signal) => i32::try_from(signal).ok().map(Self::Signal),
            What::Signal(signal) => {
                fields.fail("signal", format!("{signal} is not from 1 to 64"));
                None
            }
            What::Window(window) => fields.nest("window", window.try_into()).map(Self::Window),
            What::End(_) => Some(Self::End),
        });
        fields.finish(input)
    }
}

impl From<StepInput> for v1::StepInput {
    fn from(input: StepInput) -> Self {
        use v1::step_input::{End, EndOfInput, What};
        let what = match input {
            StepInput::Data(data) => What::Data(data),
            StepInput::EndOfInput => What::EndOfInput(EndOfInput {}),
            StepInput::Signal(signal) => What::Signal(signal.unsigned_abs()),
            StepInput::Window(window) => What::Window(window.into()),
            StepInput::End => What::End(End {}),
        };
        Self { what: Some(what) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> v1::StepStart {
        v1::StepStart { argv: vec!["sh".into()], nodes: vec!["n[0-2]".into()], ..Default::default() }
    }

    fn wrong(change: impl FnOnce(&mut v1::StepStart)) -> String {
        let mut wire = start();
        change(&mut wire);
        StepRequest::try_from(wire).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_with_a_request_is_named() {
        let request = StepRequest::try_from(start()).unwrap();
        assert_eq!((request.nodes.len(), request.ranks_per_node), (3, 1));
        assert!(wrong(|wire| wire.argv.clear()).starts_with("argv: "));
        assert!(wrong(|wire| wire.argv.push("a\0".into())).starts_with("argv[1]: "));
        assert!(wrong(|wire| wire.signal = 10).starts_with("argv: goes without"));
        assert!(wrong(|wire| (wire.argv, wire.signal) = (Vec::new(), 65)).starts_with("signal: "));
        assert!(wrong(|wire| (wire.argv, wire.port) = (Vec::new(), 1 << 16)).starts_with("port: "));
        let port = v1::StepStart { argv: Vec::new(), port: 80, ..start() };
        assert_eq!(StepRequest::try_from(port).map(|request| request.work), Ok(StepWork::Connect(80)));
        assert!(wrong(|wire| wire.nodes.push("n1".into())).starts_with("nodes[1]: "));
        assert!(wrong(|wire| wire.ranks_per_node = 257).starts_with("ranksPerNode: "));
        assert!(wrong(|wire| drop(wire.env.insert("a=b".into(), String::new()))).starts_with("env: "));
        assert!(wrong(|wire| wire.working_dir = "\0".into()).starts_with("workingDir: "));
        let window = Some(v1::StepWindow { rows: 1 << 16, columns: 1 });
        let terminal = v1::StepTerminal { window, kind: "a b".into() };
        let reported = wrong(|wire| wire.terminal = Some(terminal));
        assert!(
            reported.contains("terminal.window.rows: ") && reported.contains("terminal.kind: "),
            "{reported}"
        );
    }

    #[test]
    fn orders_and_input_survive_the_wire() {
        let request = StepRequest { terminal: Some(StepTerminal::default()), ..start().try_into().unwrap() };
        let node = NodeName::new("n0").unwrap();
        let request = StepRequest { nodes: Vec::new(), ..request };
        let (_, order) = request.parts(&[node], 7).unwrap().remove(0);
        for work in [order.work.clone(), StepWork::Signal(10), StepWork::Connect(6006)] {
            let order = StepOrder { work, ..order.clone() };
            assert_eq!(StepOrder::try_from(v1::StepOrder::from(order.clone())), Ok(order));
        }
        let more = v1::StepOrder { ranks_here: 2, ..order.into() };
        assert!(StepOrder::try_from(more).is_err());
        let window = StepWindow { rows: 24, columns: 80 };
        for input in [
            StepInput::Data(vec![1]),
            StepInput::EndOfInput,
            StepInput::Signal(2),
            StepInput::Window(window),
            StepInput::End,
        ] {
            assert_eq!(StepInput::try_from(v1::StepInput::from(input.clone())), Ok(input));
        }
        let long = v1::step_input::What::Data(vec![0; StepRequest::CHUNK + 1]);
        for bad in [None, Some(long), Some(v1::step_input::What::Signal(65))] {
            assert!(StepInput::try_from(v1::StepInput { what: bad }).is_err());
        }
    }
}
