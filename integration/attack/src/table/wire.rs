//! Abuse of the controller's port by whoever reaches it.

use crate::{
    caller::From,
    exec::{
        h2::{Flood, Malformed},
        wire::{Crowd, Handshake, Hold, Wire},
    },
    model::{Attempt, Expect, Finding, Step, Trace},
};

fn attempt(id: &str, title: &str, finding: Finding, wire: Wire, expect: Expect) -> Attempt {
    Attempt {
        id: format!("wire/{id}"),
        title: title.to_owned(),
        finding,
        from: From::Anonymous,
        step: Step::Wire(wire),
        expect,
        trace: Trace::None,
    }
}

/// All attempts of this part of the table.
pub fn all() -> Vec<Attempt> {
    [holds(), floods(), handshakes(), malformed(), crowds()].concat()
}

fn holds() -> Vec<Attempt> {
    // Seconds within which the controller must have ended it.
    let hold = |id: &str, title: &str, finding, hold, seconds| {
        attempt(&format!("hold-{id}"), title, finding, Wire::Hold(hold, seconds), Expect::Bounded)
    };
    let (held, seven) = (Finding::Held, Finding::Number(7));
    vec![
        hold("tcp-silent", "connect and say nothing", held, Hold::TcpSilent, 15),
        hold("hello-byte", "send one byte of a TLS handshake", held, Hold::HelloByte, 15),
        hold("hello-slow", "send a TLS handshake a byte at a time", held, Hold::HelloSlow, 15),
        hold("tls-silent", "finish the TLS handshake and say nothing", held, Hold::TlsSilent, 15),
        hold("preface-byte", "send one byte of the HTTP/2 preface", seven, Hold::PrefaceByte, 20),
        hold("preface-half", "send half of the HTTP/2 preface", seven, Hold::PrefaceHalf, 20),
        hold(
            "preface-slow",
            "send the HTTP/2 preface a byte every two seconds",
            seven,
            Hold::PrefaceSlow,
            30,
        ),
        hold("preface-only", "send the preface and no settings", seven, Hold::PrefaceOnly, 45),
        hold("headers-half", "send half of a request's head", seven, Hold::HeadersHalf, 45),
        hold(
            "request-open",
            "send a head, never its message, and answer pings",
            seven,
            Hold::HeadersOpen,
            70,
        ),
        hold("idle", "idle without a certificate, and answer pings", seven, Hold::IdleAnswering, 40),
        hold("http1-byte", "send one byte of an HTTP/1 request", held, Hold::Http1Byte, 20),
        hold(
            "http1-slow-head",
            "send the head of an HTTP/1 request a byte at a time",
            held,
            Hold::Http1SlowHead,
            20,
        ),
        hold(
            "http1-slow-body",
            "send the body of an HTTP/1 request a byte at a time",
            held,
            Hold::Http1SlowBody,
            45,
        ),
        hold("http1-keep-alive", "idle on HTTP/1 after a request", held, Hold::Http1KeepAlive, 45),
    ]
}

fn floods() -> Vec<Attempt> {
    let flood = |id: &str, title: &str, flood| {
        attempt(&format!("flood-{id}"), title, Finding::Held, Wire::Flood(flood), Expect::Bounded)
    };
    vec![
        flood("rapid-reset", "open and reset 20,000 streams", Flood::RapidReset),
        flood("continuation", "send a head of 20,000 continuations", Flood::Continuation),
        flood("hpack", "refer 12,000 times to a header of 4 kB in each of 200 heads", Flood::HpackBomb),
        flood("settings", "send 50,000 settings", Flood::Settings),
        flood("ping", "send 50,000 pings", Flood::Ping),
        flood("empty-data", "send 50,000 empty frames of data", Flood::EmptyData),
        flood("priority", "send 50,000 priorities", Flood::Priority),
        flood("window", "send 50,000 window updates of a byte", Flood::WindowUpdate),
        flood("unknown", "send 20,000 frames of an unknown kind", Flood::Unknown),
        flood("goaway", "say goodbye 20,000 times", Flood::GoAway),
    ]
}

fn handshakes() -> Vec<Attempt> {
    let shake = |id: &str, title: &str, shake| {
        attempt(&format!("tls-{id}"), title, Finding::Held, Wire::Handshake(shake), Expect::Refused)
    };
    vec![
        shake("plain-http", "speak HTTP/1 without TLS", Handshake::PlainHttp),
        shake("plain-h2", "speak HTTP/2 without TLS", Handshake::PlainH2),
        shake("garbage", "send 4 kB of garbage", Handshake::Garbage),
        shake("alpn", "offer another protocol", Handshake::WrongAlpn),
        shake("version", "offer TLS 1.2", Handshake::Tls12),
        shake(
            "own-admin",
            "show an administrator's certificate of an authority of one's own",
            Handshake::OwnCaAdmin,
        ),
        shake("own-node", "show a node's certificate of an authority of one's own", Handshake::OwnCaNode),
        shake(
            "own-controller",
            "show a controller's certificate of an authority of one's own",
            Handshake::OwnCaController,
        ),
        shake("other-cluster", "show a certificate of another cluster", Handshake::OtherCluster),
    ]
}

fn malformed() -> Vec<Attempt> {
    let odd = |id: &str, title: &str, what| {
        attempt(&format!("odd-{id}"), title, Finding::Held, Wire::Malformed(what), Expect::Refused)
    };
    vec![
        odd("preface", "begin with another preface", Malformed::BadPreface),
        odd("frame-16mb", "announce a frame of 16 MB", Malformed::HugeFrame),
        odd("data-idle", "send data on a stream that is not open", Malformed::DataOnIdle),
        odd("even-stream", "open a stream with an even number", Malformed::EvenStream),
        odd("headers-zero", "send a head on stream 0", Malformed::HeadersOnZero),
        odd("push", "push to the server", Malformed::PushPromise),
        odd("zero-increment", "enlarge the window by nothing", Malformed::ZeroIncrement),
        odd("window-overflow", "enlarge the window beyond its bound", Malformed::WindowOverflow),
        odd("settings-ack", "acknowledge settings with a payload", Malformed::SettingsAck),
        odd("upper-case", "send a header in capitals", Malformed::UpperCase),
        odd("no-path", "send a request without a path", Malformed::NoPath),
        odd("two-paths", "send a request with two paths", Malformed::TwoPaths),
        odd("connection", "send headers of HTTP/1", Malformed::ConnectionHeader),
        odd("header-list", "send 31 kB of headers", Malformed::HeaderList),
        odd("many-headers", "send 1,000 headers", Malformed::ManyHeaders),
        odd("grpc-4gb", "announce a message of 4 GB", Malformed::GrpcHugeLength),
        odd("grpc-compressed", "send a compressed message without an encoding", Malformed::GrpcCompressed),
        odd("grpc-2mb", "announce a message of 2 MB", Malformed::GrpcTwoMegabytes),
        odd("grpc-timeout", "ask for a deadline of 10 billion years", Malformed::GrpcTimeout),
    ]
}

fn crowds() -> Vec<Attempt> {
    vec![
        attempt(
            "crowd-health",
            "open 3,000 watches of the health service",
            Finding::Number(8),
            Wire::Crowd(Crowd::HealthWatch),
            Expect::Bounded,
        ),
        attempt(
            "crowd-idle",
            "take all connections of a small controller with idle ones",
            Finding::Number(7),
            Wire::Crowd(Crowd::Connections),
            Expect::Bounded,
        ),
        attempt(
            "crowd-silent",
            "take them all with silent ones",
            Finding::Number(7),
            Wire::Crowd(Crowd::SilentConnections),
            Expect::Bounded,
        ),
        attempt(
            "crowd-half",
            "take them all with half handshakes",
            Finding::Number(7),
            Wire::Crowd(Crowd::HalfHandshakes),
            Expect::Bounded,
        ),
    ]
}
