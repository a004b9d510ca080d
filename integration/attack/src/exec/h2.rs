//! Frames of HTTP/2 by hand, right and wrong ones.

/// A flood of HTTP/2 frames of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flood {
    RapidReset,
    Continuation,
    HpackBomb,
    Settings,
    Ping,
    EmptyData,
    Priority,
    WindowUpdate,
    Unknown,
    GoAway,
}

/// What is wrong with the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Malformed {
    HugeFrame,
    BadPreface,
    DataOnIdle,
    EvenStream,
    HeadersOnZero,
    PushPromise,
    ZeroIncrement,
    WindowOverflow,
    SettingsAck,
    UpperCase,
    NoPath,
    TwoPaths,
    ConnectionHeader,
    HeaderList,
    ManyHeaders,
    GrpcHugeLength,
    GrpcCompressed,
    GrpcTwoMegabytes,
    GrpcTimeout,
}

/// What a client says first.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// One frame, with a header that fits its payload.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A header field as a literal without indexing.
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0];
    for text in [name, value] {
        length(&mut field, text.len());
        field.extend(text.as_bytes());
    }
    field
}

/// A length with a prefix of seven bits, without Huffman coding.
fn length(to: &mut Vec<u8>, length: usize) {
    if length < 127 {
        to.push(length as u8);
        return;
    }
    to.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        to.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    to.push(rest as u8);
}

fn pseudo(path: &str) -> Vec<u8> {
    let fields = [(":method", "POST"), (":scheme", "https"), (":path", path), (":authority", "localhost")];
    let grpc = [("content-type", "application/grpc"), ("te", "trailers")];
    fields.iter().chain(&grpc).flat_map(|(name, value)| field(name, value)).collect()
}

/// The head of a gRPC call.
pub fn request(stream: u32, path: &str, more: &[(&str, &str)], end: bool) -> Vec<u8> {
    let mut block = pseudo(path);
    block.extend(more.iter().flat_map(|(name, value)| field(name, value)));
    frame(1, 4 | u8::from(end), stream, &block)
}

const CHECK: &str = "/grpc.health.v1.Health/Check";

/// How many frames a flood has, and each of them.
pub fn flood(flood: Flood) -> (u32, Box<dyn Fn(u32) -> Vec<u8> + Send + Sync>) {
    let of = |count, frames: Box<dyn Fn(u32) -> Vec<u8> + Send + Sync>| (count, frames);
    match flood {
        Flood::RapidReset => of(
            20_000,
            Box::new(|n| {
                [request(2 * n + 1, CHECK, &[], false), frame(3, 0, 2 * n + 1, &[0, 0, 0, 8])].concat()
            }),
        ),
        Flood::Continuation => of(
            20_000,
            Box::new(|n| {
                if n == 0 {
                    frame(1, 0, 1, &pseudo(CHECK))
                } else {
                    frame(9, 0, 1, &field("x-more", &"a".repeat(1000)))
                }
            }),
        ),
        Flood::HpackBomb => of(
            200,
            Box::new(|n| {
                // A field of 4,000 bytes into the table once, then 16,000 references to it in each head.
                let mut block = pseudo(CHECK);
                if n == 0 {
                    block.push(0x40);
                    length(&mut block, 3);
                    block.extend(b"x-b");
                    length(&mut block, 4_000);
                    block.extend([b'b'; 4_000]);
                }
                block.extend([0xbe; 12_000]);
                frame(1, 5, 2 * n + 1, &block)
            }),
        ),
        Flood::Settings => of(50_000, Box::new(|_| frame(4, 0, 0, &[0, 3, 0, 0, 0, 100]))),
        Flood::Ping => of(50_000, Box::new(|n| frame(6, 0, 0, &u64::from(n).to_be_bytes()))),
        Flood::EmptyData => {
            of(50_000, Box::new(|n| if n == 0 { request(1, CHECK, &[], false) } else { frame(0, 0, 1, &[]) }))
        }
        Flood::Priority => of(50_000, Box::new(|n| frame(2, 0, 2 * n + 1, &[0, 0, 0, 0, 16]))),
        Flood::WindowUpdate => of(50_000, Box::new(|_| frame(8, 0, 0, &[0, 0, 0, 1]))),
        Flood::Unknown => of(20_000, Box::new(|_| frame(0xbb, 0xff, 0, &[0; 100]))),
        Flood::GoAway => of(20_000, Box::new(|_| frame(7, 0, 0, &[0; 8]))),
    }
}

/// What is sent of something malformed, after the preface unless that itself is.
pub fn malformed(what: Malformed) -> Vec<Vec<u8>> {
    let mut parts = vec![PREFACE.to_vec(), frame(4, 0, 0, &[])];
    let body = |bytes: &[u8]| {
        let head = request(1, "/rail.v1.EnrollService/Join", &[], false);
        [head, frame(0, 1, 1, bytes)].concat()
    };
    let with = |more: &[(&str, &str)]| request(1, CHECK, more, true);
    match what {
        Malformed::BadPreface => {
            return vec![b"PRI * HTTP/3.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])];
        }
        Malformed::HugeFrame => parts.push(vec![0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]),
        Malformed::DataOnIdle => parts.push(frame(0, 0, 5, b"x")),
        Malformed::EvenStream => parts.push(request(2, CHECK, &[], true)),
        Malformed::HeadersOnZero => parts.push(request(0, CHECK, &[], true)),
        Malformed::PushPromise => parts.push(frame(5, 4, 1, &[0, 0, 0, 2])),
        Malformed::ZeroIncrement => parts.push(frame(8, 0, 0, &[0; 4])),
        Malformed::WindowOverflow => {
            parts.extend([
                frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
                frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
            ]);
        }
        Malformed::SettingsAck => parts.push(frame(4, 1, 0, &[0; 6])),
        Malformed::UpperCase => parts.push(with(&[("X-Upper", "a")])),
        Malformed::NoPath => parts.push(frame(1, 5, 1, &field(":method", "POST"))),
        Malformed::TwoPaths => parts.push(with(&[(":path", "/rail.v1.JobService/ListJobs")])),
        Malformed::ConnectionHeader => {
            parts.push(with(&[("connection", "keep-alive"), ("transfer-encoding", "chunked")]))
        }
        Malformed::HeaderList => {
            let big = "a".repeat(15_000);
            parts.push(request(1, CHECK, &[("x-a", &big)], true));
            parts.push(request(3, CHECK, &[("x-a", &big[..10_000]), ("x-b", &big[..6_000])], true));
        }
        Malformed::ManyHeaders => {
            let names: Vec<String> = (0..1_000).map(|n| format!("x-{n}")).collect();
            let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
            parts.push(request(1, CHECK, &all, true));
        }
        Malformed::GrpcHugeLength => parts.push(body(&[0, 0xff, 0xff, 0xff, 0xff])),
        Malformed::GrpcCompressed => parts.push(body(&[1, 0, 0, 0, 4, 1, 2, 3, 4])),
        Malformed::GrpcTwoMegabytes => {
            parts.push(request(1, "/rail.v1.EnrollService/Join", &[], false));
            parts.push(frame(0, 0, 1, &[0, 0, 0x20, 0, 0]));
            parts.extend((0..4).map(|_| frame(0, 0, 1, &[b'a'; 16_000])));
        }
        Malformed::GrpcTimeout => parts.push(request(
            1,
            "/rail.v1.JobService/ListJobs",
            &[("grpc-timeout", "99999999999999H")],
            true,
        )),
    }
    parts
}

/// Reads frames and answers pings and settings.
#[derive(Debug, Default)]
pub struct Frames(Vec<u8>);

impl Frames {
    fn next(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let head = self.0.get(..9)?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let payload = self.0.get(9..9 + length)?.to_vec();
        self.0.drain(..9 + length);
        Some((kind, flags, stream, payload))
    }

    /// What is to be answered to what came.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.0.extend_from_slice(bytes);
        let mut answers = Vec::new();
        while let Some((kind, flags, _, payload)) = self.next() {
            match kind {
                4 if flags & 1 == 0 => answers.push(frame(4, 1, 0, &[])),
                6 if flags & 1 == 0 => answers.push(frame(6, 1, 0, &payload)),
                _ => {}
            }
        }
        answers
    }
}

/// What a controller has said on a connection.
#[derive(Debug, Default)]
pub struct Seen {
    frames: Frames,
    heads: u32,
    ends: u32,
    resets: u32,
    away: bool,
}

impl Seen {
    /// Takes what came; true if no more needs to be waited for.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        self.frames.0.extend_from_slice(bytes);
        while let Some((kind, flags, _, _)) = self.frames.next() {
            match kind {
                1 => {
                    self.heads += 1;
                    self.ends += u32::from(flags & 1);
                }
                0 => self.ends += u32::from(flags & 1),
                3 => self.resets += 1,
                7 => self.away = true,
                _ => {}
            }
        }
        self.refused()
    }

    /// The stream or the connection was refused, or answered and over.
    pub fn refused(&self) -> bool {
        self.away || self.resets > 0 || self.ends > 0
    }

    /// Streams that were answered and go on.
    pub fn open_streams(&self) -> usize {
        (self.heads.saturating_sub(self.ends + self.resets)) as usize
    }
}

/// The beginning of a TLS handshake, whole: enough to be parsed, not to succeed.
pub fn client_hello() -> Vec<u8> {
    hello(0x0304)
}

/// One that knows TLS 1.2 at most.
pub fn client_hello_12() -> Vec<u8> {
    hello(0x0303)
}

fn hello(version: u16) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend([0, 4, 0x13, 0x01, 0xc0, 0x2b]);
    body.extend([1, 0]);
    let mut extensions = Vec::new();
    if version == 0x0304 {
        extensions.extend([0, 43, 0, 3, 2, 3, 4]);
    }
    // Groups and signatures.
    extensions.extend([0, 10, 0, 4, 0, 2, 0, 23]);
    extensions.extend([0, 13, 0, 4, 0, 2, 4, 3]);
    body.extend(u16::try_from(extensions.len()).unwrap_or(0).to_be_bytes());
    body.extend(extensions);
    let mut record = vec![0x16, 3, 1];
    let handshake = u32::try_from(body.len()).unwrap_or(0).to_be_bytes();
    record.extend(u16::try_from(body.len() + 4).unwrap_or(0).to_be_bytes());
    record.push(1);
    record.extend(&handshake[1..]);
    record.extend(body);
    record
}
