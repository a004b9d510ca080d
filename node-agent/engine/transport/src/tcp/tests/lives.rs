//! Lives of links: generations, ports, dials that hang.

use node_agent_ipc::pieces::{Source, Target};
use socket2::{Domain, Socket, Type};

use super::*;

/// Writes down what links do, and which generation was last up; lets frames gather for so long.
#[derive(Default)]
struct Log(Vec<String>, u32, Duration);

impl Sink for Log {
    fn payload(&self, _: u64, _: Region) -> Option<Source<'_>> {
        Some(Source::from(&[7; 1 << 20][..]))
    }
    fn begin(&mut self, _: Rail, _: Node, _: &Header) -> Result<(), FrameError> {
        Ok(())
    }
    fn landing(&mut self, _: Rail, _: Node, _: usize) -> Option<Target<'_>> {
        None
    }
    fn received(&mut self, rail: Rail, peer: Node) -> Result<(), FrameError> {
        self.0.push(format!("frame {rail} {peer}"));
        Ok(())
    }
    fn sent(&mut self, _: Rail, _: Node, token: u64) {
        self.0.push(format!("sent {token}"));
    }
    fn rail_up(&mut self, rail: Rail, peer: Node, generation: u32) {
        assert!(generation > self.1, "it rises");
        self.1 = generation;
        self.0.push(format!("up {rail} {peer}"));
    }
    fn rail_down(&mut self, rail: Rail, peer: Node, generation: u32, cause: RailCause) {
        assert_eq!(generation, self.1);
        self.0.push(format!("down {rail} {peer}: {cause}"));
    }
    fn port_down(&mut self, rail: Rail) {
        self.0.push(format!("port down {rail}"));
    }
    fn port_up(&mut self, rail: Rail) {
        self.0.push(format!("port up {rail}"));
    }
    fn rest(&self) -> Duration {
        self.2
    }
}

/// Two nodes with a rail between them, and what they report.
struct Ends {
    rails: [TcpRails; 2],
    logs: [Log; 2],
}

impl Ends {
    /// Up; node 1 dials.
    fn new() -> Self {
        let net = net();
        let mut rails = [0, 1].map(|n| TcpRails::bind(&config(net, n, 2, 1)).unwrap());
        let endpoints = [0, 1].map(|n: usize| rails[n].endpoints());
        for n in 0..2 {
            let peer = BTreeMap::from([(1 - n as Node, endpoints[1 - n].clone())]);
            rails[n].connect(&peer, Instant::now() + Duration::from_secs(5)).unwrap();
        }
        let mut ends = Ends { rails, logs: Default::default() };
        ends.expect([&["up 0 1"], &["up 0 0"]]);
        ends
    }

    fn poll(&mut self) {
        for (rails, log) in self.rails.iter_mut().zip(&mut self.logs) {
            rails.poll(Some(Duration::from_millis(5)), log).unwrap();
        }
    }

    /// Polls until both have reported as much as is expected of them, and compares. Both know the same generation.
    #[track_caller]
    fn expect(&mut self, expected: [&[&str]; 2]) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.logs.iter().zip(expected).any(|(log, expected)| log.0.len() < expected.len()) {
            assert!(
                Instant::now() < deadline,
                "{:?} instead of {expected:?}",
                self.logs.each_ref().map(|l| &l.0)
            );
            self.poll();
        }
        assert_eq!(self.logs.each_mut().map(|l| std::mem::take(&mut l.0)), expected);
        assert_eq!(self.logs[0].1, self.logs[1].1);
    }
}

fn frame(peer: Node, token: u64, length: usize) -> Transmit {
    let kind = Kind::Data { step: 0, block: 0, offset: 0 };
    let control = Header::control(kind, Key::Collective { seq: 0 }, 0, 0);
    let header = Header { call: Some(Call::BARRIER), length: length as u32, ..control };
    Transmit { rail: 0, peer, header, payload: Some(Region::new(BufferId(0), 0, length)), token }
}

#[test]
fn each_life_of_a_link_has_a_generation_that_both_ends_know() {
    let mut ends = Ends::new();
    let generation = ends.logs[0].1;
    ends.rails[0].close(0, 1, generation + 1, RailCause::Local);
    ends.rails[0].close(0, 1, generation, RailCause::Silent(Duration::from_secs(1)));
    ends.rails[0].send(frame(1, 2, 1 << 20));
    ends.expect([
        &["down 0 1: no sign of life for 1s", "up 0 1"],
        &["down 0 0: closed by the peer", "up 0 0"],
    ]);
    // The dialing side can close too; asked to, it is back at once.
    let generation = ends.logs[1].1;
    ends.rails[1].close(0, 0, generation, RailCause::Fenced);
    ends.rails[1].redial(0, 0);
    ends.expect([&["down 0 1: closed by the peer", "up 0 1"], &["down 0 0: given up by the peer", "up 0 0"]]);
}

/// What is queued when a life ends goes nowhere, and none of it is reported as sent.
#[test]
fn the_end_of_a_life_drops_what_is_queued() {
    let mut ends = Ends::new();
    for token in 0..64 {
        ends.rails[1].send(frame(0, token, 1 << 20));
    }
    ends.rails[1].flush(&mut ends.logs[1]);
    let sent = std::mem::take(&mut ends.logs[1].0);
    assert!(sent.len() < 64 && sent.iter().all(|l| l.starts_with("sent")));
    let generation = ends.logs[1].1;
    ends.rails[1].close(0, 0, generation, RailCause::Local);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !ends.logs.iter().all(|l| l.0.iter().any(|l| l.starts_with("up"))) {
        assert!(Instant::now() < deadline);
        ends.poll();
    }
    assert_eq!(ends.logs[1].0, ["down 0 0: taken down here", "up 0 0"]);
    let (frames, end) = ends.logs[0].0.split_at(ends.logs[0].0.len() - 2);
    assert!(frames.len() <= sent.len() && frames.iter().all(|l| l == "frame 0 1"));
    assert_eq!(end, ["down 0 1: closed by the peer", "up 0 1"]);
}

#[test]
fn a_port_takes_its_links_along_and_brings_them_back_at_once() {
    let mut ends = Ends::new();
    for (end, other) in [(0, 1), (1, 0)] {
        ends.rails[end].set_port(0, false);
        ends.rails[end].set_port(0, false);
        let down = format!("down 0 {other}: the own port has no carrier");
        let closed = [&*format!("down 0 {end}: closed by the peer")];
        let own = ["port down 0", &down];
        let mut expected: [&[&str]; 2] = [&closed; 2];
        expected[end] = &own;
        ends.expect(expected);
        for _ in 0..20 {
            ends.poll();
        }
        ends.expect([&[]; 2]);
        ends.rails[end].set_port(0, true);
        let up = [&*format!("up 0 {end}")];
        let own = ["port up 0", &*format!("up 0 {other}")];
        let mut expected: [&[&str]; 2] = [&up; 2];
        expected[end] = &own;
        ends.expect(expected);
    }
}

/// A listener whose queue is full lets every further connection go unanswered, as a black hole does.
#[test]
fn a_dial_that_hangs_is_made_anew_until_somebody_answers() {
    let net = net();
    let address: SocketAddr = SocketAddr::from(([127, net, 1, 1], 0));
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&address.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let fill = TcpStream::connect(address).unwrap();
    let mut end = TcpRails::bind(&config(net, 1, 2, 1)).unwrap();
    end.connect(&BTreeMap::from([(0, vec![address])]), Instant::now() + Duration::from_secs(60)).unwrap();
    let mut log = Log::default();
    let unanswered = |end: &TcpRails| match end.wiring() {
        Wiring::Waiting(missing) => missing[0].2.as_deref() == Some("no answer"),
        _ => false,
    };
    let deadline = Instant::now() + SOON;
    while !unanswered(&end) {
        assert!(Instant::now() < deadline);
        end.poll(Some(Duration::from_millis(10)), &mut log).unwrap();
    }
    assert_eq!(end.refusals(), Refusals::default());
    // Room again: the next attempt, which is never more than a quarter of a second away, gets through.
    let (first, _) = listener.accept().unwrap();
    let freed = Instant::now();
    listener.set_nonblocking(true).unwrap();
    let hello = loop {
        assert!(freed.elapsed() < SOON);
        end.poll(Some(Duration::from_millis(5)), &mut log).unwrap();
        let Ok((stream, _)) = listener.accept() else { continue };
        stream.set_nonblocking(false).unwrap();
        end.poll(Some(Duration::ZERO), &mut log).unwrap();
        let (mut stream, mut hello) = (TcpStream::from(stream), [0; 28]);
        if stream.read_exact(&mut hello).is_ok() {
            break hello;
        }
    };
    // The kernel's own next try would be of the first attempt still.
    assert!(u32::from_le_bytes(hello[24..28].try_into().unwrap()) >= 2, "an attempt of its own generation");
    drop((fill, first));
}

/// However long frames may gather, a wait ends when it should, and who only asks what is there does not rest.
#[test]
fn a_rest_is_no_longer_than_the_wait() {
    let mut ends = Ends::new();
    let bye = |token| Transmit {
        rail: 0,
        peer: 1,
        header: Header::control(Kind::Bye, Key::Link, 7, 0),
        payload: None,
        token,
    };
    let Ends { rails: [sender, receiver], logs: [said, heard] } = &mut ends;
    heard.2 = Duration::from_secs(3600);
    for wait in [Duration::ZERO, Duration::from_millis(5)] {
        (0..3).for_each(|token| sender.send(bye(token)));
        sender.flush(said);
        let since = Instant::now();
        while heard.0.len() < 3 {
            receiver.poll(Some(wait), heard).unwrap();
            assert!(since.elapsed() < Duration::from_secs(10), "{:?}", heard.0);
        }
        heard.0.clear();
    }
}
