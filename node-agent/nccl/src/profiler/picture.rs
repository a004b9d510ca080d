//! Spans and rails as one picture: the trace-event format, which Perfetto and Chrome's viewer read. [pure]

use std::fmt::Write;

use super::event::{Event, Span, State};
use super::rails::{Direction, Sample, waited_for};

/// Lines of rails are beside those of ranks.
const RAILS: u64 = 1_000_000;

/// Whose picture it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// The rank within the job.
    pub rank: u32,
    /// Its server, as the job numbers it.
    pub node: u32,
    /// Whether the server's rails are in this picture: one rank of each server draws them.
    pub draws_rails: bool,
    /// The job's own trace, as W3C writes it; empty where there is none.
    pub trace: String,
}

/// A file with all of it. Times are those of the wall clock, so that files of several ranks are one picture when they are put together.
#[must_use]
pub fn draw(subject: &Subject, spans: &[Span], samples: &[Sample], lost: u64) -> String {
    let Subject { rank, node, draws_rails, trace } = subject;
    let mut out = format!(
        "{{\"otherData\":{{\"rank\":\"{rank}\",\"node\":\"{node}\",\"lost\":\"{lost}\",\"traceparent\":\"{}\"}},\"traceEvents\":[\n",
        escape(trace)
    );
    let _ = write!(out, "{}", name(u64::from(*rank), &format!("rank {rank} on node {node}")));
    for (number, span) in spans.iter().enumerate() {
        draw_span(&mut out, *rank, number, span, samples);
    }
    if *draws_rails {
        let pid = RAILS + u64::from(*node);
        let _ = write!(out, ",\n{}", name(pid, &format!("rails of node {node}")));
        samples.windows(2).for_each(|pair| draw_rails(&mut out, pid, &pair[0], &pair[1]));
    }
    out.push_str("\n]}\n");
    out
}

fn name(pid: u64, name: &str) -> String {
    format!(
        "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{pid},\"args\":{{\"name\":\"{}\"}}}}",
        escape(name)
    )
}

fn draw_span(out: &mut String, rank: u32, number: usize, span: &Span, samples: &[Sample]) {
    let who = format!("\"communicator\":\"{:016x}\",\"rank\":{}", span.communicator, span.rank);
    let (start, end) = (micros(span.start), micros(span.end));
    match &span.event {
        Event::Call { name, count } => {
            let long = micros(span.end - span.start);
            let _ = write!(
                out,
                ",\n{{\"ph\":\"X\",\"cat\":\"call\",\"name\":\"{}\",\"pid\":{rank},\"tid\":0,\"ts\":{start},\"dur\":{long},\"args\":{{{who},\"count\":{count}}}}}",
                escape(name)
            );
        }
        Event::Operation { channel, peer, sends } => {
            let what = if *sends { "sends to" } else { "receives from" };
            let text = format!("{what} rank {peer}");
            draw_async(out, (rank, number, *channel), ("operation", &text), (&start, &end), &who);
        }
        Event::Step { channel, peer, state, bytes } => {
            let (what, direction) = waits(*state);
            let rail = direction.and_then(|direction| waited_for(samples, span.start, span.end, direction));
            let text = match (what, rail) {
                (Some(what), Some(rail)) => format!("waits for rank {peer}, rail {rail}: {what}"),
                (Some(what), None) => format!("waits for rank {peer}: {what}"),
                (None, _) => "waits for the GPU".to_owned(),
            };
            let rail = rail.map_or_else(String::new, |rail| format!(",\"rail\":{rail}"));
            let args = format!("{who},\"peer\":{peer},\"bytes\":{bytes}{rail}");
            draw_async(out, (rank, number, *channel), ("wait", &text), (&start, &end), &args);
        }
    }
}

/// What of another rank a state waits for, and which way the bytes go that are on the rails meanwhile.
fn waits(state: State) -> (Option<&'static str>, Option<Direction>) {
    match state {
        State::SendPeer => (Some("it has no room yet"), None),
        State::Send => (Some("to have what was sent"), Some(Direction::Out)),
        State::Receive => (Some("to send"), Some(Direction::In)),
        State::SendGpu | State::Flush | State::ReceiveGpu => (None, None),
    }
}

/// Several of these are under way at a time on one channel.
fn draw_async(
    out: &mut String,
    (rank, number, channel): (u32, usize, u8),
    (category, text): (&str, &str),
    (start, end): (&str, &str),
    args: &str,
) {
    let text = escape(text);
    let common = format!(
        "\"cat\":\"{category}\",\"name\":\"{text}\",\"id\":{number},\"pid\":{rank},\"tid\":{}",
        u16::from(channel) + 1
    );
    let _ = write!(
        out,
        ",\n{{\"ph\":\"b\",{common},\"ts\":{start},\"args\":{{{args}}}}},\n{{\"ph\":\"e\",{common},\"ts\":{end}}}"
    );
}

/// Mbit/s of each rail between two samples.
fn draw_rails(out: &mut String, pid: u64, before: &Sample, after: &Sample) {
    let took = after.at.saturating_sub(before.at).max(1);
    // Bits for each nanosecond are Gbit/s.
    let mbit = |now: u64, then: u64| u128::from(now.saturating_sub(then)) * 8000 / u128::from(took);
    for rail in &after.rails {
        let Some(then) = before.rails.iter().find(|other| other.rail == rail.rail) else { continue };
        let (sent, received) = (mbit(rail.tx_bytes, then.tx_bytes), mbit(rail.rx_bytes, then.rx_bytes));
        let (number, at) = (rail.rail, micros(before.at));
        let _ = write!(
            out,
            ",\n{{\"ph\":\"C\",\"name\":\"rail {number}, Mbit/s\",\"pid\":{pid},\"ts\":{at},\"args\":{{\"sent\":{sent},\"received\":{received}}}}}"
        );
    }
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn escape(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).fold(String::new(), |mut out, c| {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

#[cfg(test)]
mod tests {
    use node_agent_client::RailBytes;

    use super::*;

    fn span(start: u64, end: u64, event: Event) -> Span {
        Span { rank: 1, communicator: 0xabc, start, end, event }
    }

    #[test]
    fn one_picture_has_calls_waits_and_rails() {
        let rail = |rail, tx_bytes| RailBytes { rail, tx_bytes, rx_bytes: 0, chunks: 0 };
        let samples = [
            Sample { at: 1_000_000, rails: vec![rail(0, 0), rail(1, 0)] },
            Sample { at: 2_000_000, rails: vec![rail(0, 125_000), rail(1, 1_250_000)] },
        ];
        let spans = [
            span(1_000_500, 2_500_000, Event::Call { name: "AllReduce \"ring\"".into(), count: 10 }),
            span(1_000_000, 2_000_000, Event::Step { channel: 0, peer: 2, state: State::Send, bytes: 99 }),
            span(1_000_000, 1_000_700, Event::Step { channel: 0, peer: 2, state: State::SendGpu, bytes: 0 }),
        ];
        let subject = Subject { rank: 1, node: 0, draws_rails: true, trace: "00-a-b-01".into() };
        let picture = draw(&subject, &spans, &samples, 4);
        for part in [
            "\"lost\":\"4\",\"traceparent\":\"00-a-b-01\"",
            "\"name\":\"AllReduce \\\"ring\\\"\",\"pid\":1,\"tid\":0,\"ts\":1000.500,\"dur\":1499.500",
            "\"name\":\"waits for rank 2, rail 1: to have what was sent\"",
            "\"peer\":2,\"bytes\":99,\"rail\":1",
            "\"name\":\"waits for the GPU\"",
            "\"name\":\"rail 1, Mbit/s\",\"pid\":1000000,\"ts\":1000.000,\"args\":{\"sent\":10000,\"received\":0}",
        ] {
            assert!(picture.contains(part), "{part} is missing in\n{picture}");
        }
        let other = draw(&Subject { draws_rails: false, ..subject }, &spans, &samples, 0);
        assert!(!other.contains("Mbit/s"));
    }

    /// It is JSON, whatever names are in it.
    #[test]
    fn braces_and_quotes_are_balanced() {
        let name = "a\"b\\c\n{d".to_owned();
        let picture = draw(&Subject::default(), &[span(0, 1, Event::Call { name, count: 0 })], &[], 0);
        assert!(picture.contains("a\\\"b\\\\c {d"), "{picture}");
        let (mut depth, mut quoted, mut escaped) = (0_i32, false, false);
        for c in picture.chars() {
            match c {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                '{' | '[' if !quoted => depth += 1,
                '}' | ']' if !quoted => depth -= 1,
                _ => {}
            }
            assert!(depth >= 0);
        }
        assert_eq!((depth, quoted), (0, false));
    }
}
