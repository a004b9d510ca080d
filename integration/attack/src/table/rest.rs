//! What is tried over HTTP/1.1: the same doors with other handles.

use crate::{
    caller::From,
    model::{Attempt, Expect, Finding, Step, Trace},
    world::JOB,
};

/// One request. The head is as written; `Host` and an end are added.
fn request(
    id: &str,
    title: &str,
    from: From,
    head: &str,
    body: &[u8],
    expect: Expect,
    trace: Trace,
) -> Attempt {
    Attempt {
        id: format!("rest/{id}"),
        title: title.to_owned(),
        finding: Finding::Held,
        from,
        step: Step::Rest { head: head.to_owned(), body: body.to_vec() },
        expect,
        trace,
    }
}

fn refused(id: &str, title: &str, head: &str, body: &[u8]) -> Attempt {
    request(id, title, From::User, head, body, Expect::Refused, Trace::None)
}

fn foreign(id: &str, title: &str, from: From, head: &str, body: &[u8]) -> Attempt {
    request(id, title, from, head, body, Expect::Reason(&["FOREIGN_TENANT"]), Trace::Audited)
}

fn hidden(id: &str, title: &str, head: &str) -> Attempt {
    request(id, title, From::Viewer, head, b"", Expect::Hidden, Trace::None)
}

/// All attempts of this part of the table.
pub fn all() -> Vec<Attempt> {
    [tenants(), headers(), framing(), bodies(), doors()].concat()
}

fn tenants() -> Vec<Attempt> {
    let job = format!("/v1/jobs/{JOB}");
    vec![
        foreign(
            "get-job",
            "read a job of the other tenant",
            From::Viewer,
            &format!("GET {job}?tenant=alpha"),
            b"",
        ),
        foreign("list-jobs", "list the other tenant's jobs", From::Viewer, "GET /v1/jobs?tenant=alpha", b""),
        foreign(
            "logs",
            "read the other tenant's logs",
            From::Viewer,
            &format!("GET {job}/logs?tenant=alpha"),
            b"",
        ),
        foreign(
            "watch",
            "watch the other tenant's jobs",
            From::Viewer,
            "GET /v1/jobs:watch?tenant=alpha",
            b"",
        ),
        foreign(
            "delete",
            "delete a job of the other tenant",
            From::User,
            &format!("DELETE {job}?tenant=alpha"),
            b"",
        ),
        foreign(
            "cancel",
            "cancel a job of the other tenant",
            From::User,
            &format!("POST {job}:cancel"),
            br#"{"tenant":"alpha"}"#,
        ),
        refused("query-twice", "name two tenants in the query", "GET /v1/jobs?tenant=beta&tenant=alpha", b""),
        refused(
            "path-dots",
            "climb out of the path",
            &format!("GET /v1/jobs/../tenants/alpha/jobs/{JOB}"),
            b"",
        ),
        refused(
            "path-percent",
            "climb out of the path in percent signs",
            &format!("GET /v1/jobs/%2e%2e%2falpha%2f{JOB}"),
            b"",
        ),
        refused("path-slash", "hide a slash in a name", &format!("GET /v1/jobs/alpha%2f{JOB}"), b""),
        refused("path-nul", "hide a NUL in a name", &format!("GET /v1/jobs/{JOB}%00"), b""),
        refused("path-double", "write slashes twice", &format!("GET //v1//jobs/{JOB}?tenant=alpha"), b""),
        refused("path-verb", "put another verb behind a name", &format!("POST {job}:explain:cancel"), b"{}"),
        refused(
            "body-and-path",
            "name one job in the path and another in the body",
            "POST /v1/jobs/own:cancel",
            format!(r#"{{"name":"{JOB}"}}"#).as_bytes(),
        ),
        refused(
            "field-in-query",
            "set a field of the body by the query",
            "POST /v1/jobs?job.metadata.tenant=alpha",
            br#"{"metadata":{"name":"x"}}"#,
        ),
        refused("utf8", "name a tenant in broken UTF-8", "GET /v1/jobs?tenant=%ff%fe", b""),
    ]
}

fn headers() -> Vec<Attempt> {
    let with = |header: &str| format!("GET /v1/jobs\r\n{header}");
    vec![
        hidden("x-tenant", "name a tenant in a header", &with("X-Tenant: alpha")),
        hidden(
            "x-rail-tenant",
            "name a tenant in a header of ours",
            &with("X-Rail-Tenant: alpha\r\nRail-Tenant: alpha"),
        ),
        hidden(
            "x-forwarded",
            "pretend to be forwarded for the administrator",
            &with("X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-User: admin\r\nForwarded: for=127.0.0.1"),
        ),
        hidden(
            "x-client-cert",
            "show another certificate in a header",
            &with(
                "X-Client-Cert: admin\r\nX-SSL-Client-S-DN: CN=admin\r\nX-Forwarded-Client-Cert: URI=spiffe://rail/admin/admin",
            ),
        ),
        hidden("host", "ask for another host", "GET /v1/jobs\r\nHost: admin.localhost"),
        request(
            "override",
            "turn a read into a delete by a header",
            From::Viewer,
            &format!("GET /v1/jobs/{JOB}\r\nX-HTTP-Method-Override: DELETE\r\nX-HTTP-Method: DELETE"),
            b"",
            Expect::Refused,
            Trace::None,
        ),
        hidden(
            "grpc-metadata",
            "bring a tenant as gRPC metadata",
            &with("Grpc-Metadata-Tenant: alpha\r\nGrpc-Metadata-Authorization: Bearer x"),
        ),
        refused(
            "bearer-beside-certificate",
            "show a wrong token beside a good certificate",
            &with(
                "Authorization: Bearer rail-user-v1.AAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            ),
            b"",
        ),
        request(
            "bearer-garbage",
            "show a token of garbage",
            From::Anonymous,
            &with("Authorization: Bearer ../../../etc/passwd"),
            b"",
            Expect::Reason(&["BAD_TOKEN", "TOKEN_INVALID"]),
            Trace::Audited,
        ),
        request(
            "bearer-basic",
            "show a password",
            From::Anonymous,
            &with("Authorization: Basic YWRtaW46YWRtaW4="),
            b"",
            Expect::Reason(&["BAD_TOKEN", "TOKEN_INVALID"]),
            Trace::Audited,
        ),
        request(
            "bearer-twice",
            "show two tokens",
            From::Anonymous,
            &with("Authorization: Bearer a\r\nAuthorization: Bearer b"),
            b"",
            Expect::Refused,
            Trace::None,
        ),
        request(
            "cookie",
            "show a cookie",
            From::Anonymous,
            &with("Cookie: session=admin"),
            b"",
            Expect::Reason(&["NO_CREDENTIALS"]),
            Trace::Audited,
        ),
        request(
            "many-headers",
            "send 5,000 headers",
            From::Anonymous,
            &with(&(0..5000).map(|n| format!("x-{n}: 1")).collect::<Vec<_>>().join("\r\n")),
            b"",
            Expect::Refused,
            Trace::None,
        ),
        request(
            "huge-header",
            "send a header of 1 MB",
            From::Anonymous,
            &with(&format!("x-a: {}", "a".repeat(1_000_000))),
            b"",
            Expect::Refused,
            Trace::None,
        ),
        request(
            "huge-path",
            "ask for a path of 1 MB",
            From::Anonymous,
            &format!("GET /{}", "a".repeat(1_000_000)),
            b"",
            Expect::Refused,
            Trace::None,
        ),
        request(
            "upgrade",
            "upgrade to HTTP/2 in the clear",
            From::Anonymous,
            &with("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__"),
            b"",
            Expect::Refused,
            Trace::None,
        ),
        request(
            "absolute",
            "ask for an absolute address, as of a proxy",
            From::Anonymous,
            "GET http://169.254.169.254/latest/meta-data/",
            b"",
            Expect::Refused,
            Trace::None,
        ),
        request(
            "connect",
            "connect through the controller",
            From::Anonymous,
            "CONNECT 127.0.0.1:22",
            b"",
            Expect::Refused,
            Trace::None,
        ),
        request(
            "trace",
            "have a request echoed",
            From::Viewer,
            "TRACE /v1/jobs",
            b"",
            Expect::Refused,
            Trace::None,
        ),
    ]
}

fn framing() -> Vec<Attempt> {
    let smuggled = b"0\r\n\r\nDELETE /v1/jobs/merger-2027?tenant=alpha HTTP/1.1\r\nHost: x\r\n\r\n";
    vec![
        refused(
            "cl-te",
            "send a length and chunks at once",
            "POST /v1/jobs:plan\r\nContent-Length: 6\r\nTransfer-Encoding: chunked",
            smuggled,
        ),
        refused(
            "cl-cl",
            "send two lengths",
            "POST /v1/jobs:plan\r\nContent-Length: 6\r\nContent-Length: 70",
            smuggled,
        ),
        refused(
            "te-te",
            "send an encoding that is none",
            "POST /v1/jobs:plan\r\nTransfer-Encoding: chunked, identity",
            smuggled,
        ),
        refused(
            "te-x",
            "send chunks by a misspelt header",
            "POST /v1/jobs:plan\r\nTransfer-Encoding : chunked",
            smuggled,
        ),
        refused("cl-negative", "send a negative length", "POST /v1/jobs:plan\r\nContent-Length: -1", b"{}"),
        refused(
            "cl-huge",
            "promise 16 exabytes",
            "POST /v1/jobs:plan\r\nContent-Length: 18446744073709551615",
            b"{}",
        ),
        refused(
            "chunk-huge",
            "send a chunk of 16 exabytes",
            "POST /v1/jobs:plan\r\nTransfer-Encoding: chunked",
            b"ffffffffffffffff\r\n{}",
        ),
        refused(
            "obs-fold",
            "fold a header over two lines",
            "GET /v1/jobs?tenant=alpha\r\nX-A: b\r\n folded",
            b"",
        ),
        refused("nul-header", "send a NUL in a header", "GET /v1/jobs?tenant=alpha\r\nX-A: b\0c", b""),
        refused(
            "bare-lf",
            "end lines with a line feed",
            "GET /v1/jobs?tenant=alpha HTTP/1.1\nHost: x\n\n",
            b"",
        ),
        refused("version", "speak HTTP/9.9", "RAW GET /v1/jobs HTTP/9.9\r\nHost: x\r\n\r\n", b""),
    ]
}

fn bodies() -> Vec<Attempt> {
    let plan = "POST /v1/jobs:plan";
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    let deep_objects = br#"{"a":"#.repeat(50_000);
    vec![
        refused(
            "gzip-bomb",
            "send a body of 10 MB in 10 kB of gzip",
            &format!("{plan}\r\nContent-Encoding: gzip"),
            &gzip_of_zeros(),
        ),
        refused("nesting", "nest arrays 100,000 deep", plan, &deep),
        refused("nesting-objects", "nest objects 50,000 deep", plan, &deep_objects),
        refused("two-megabytes", "send a body of 2 MB", plan, &vec![b' '; 2 << 20]),
        refused(
            "twice",
            "set a field twice",
            plan,
            br#"{"metadata":{"name":"a","name":"b"},"spec":{"gang":{"nodes":1}}}"#,
        ),
        refused(
            "unknown",
            "set a field that there is not",
            plan,
            br#"{"metadata":{"name":"a"},"spec":{"root":true}}"#,
        ),
        refused("proto-key", "set a prototype", plan, br#"{"__proto__":{"admin":true}}"#),
        refused(
            "number-huge",
            "set a number beyond all bounds",
            plan,
            br#"{"metadata":{"name":"a"},"spec":{"gang":{"nodes":1e400}}}"#,
        ),
        refused(
            "number-negative",
            "set a negative number of nodes",
            plan,
            br#"{"metadata":{"name":"a"},"spec":{"gang":{"nodes":-1}}}"#,
        ),
        refused(
            "status",
            "submit a job with a status of its own",
            "POST /v1/jobs?requestId=beta-st",
            br#"{"metadata":{"name":"a"},"spec":{"gang":{"nodes":1}},"status":{"phase":"COMPLETED"}}"#,
        ),
        refused(
            "text",
            "send a body that is no JSON",
            plan,
            b"<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY y SYSTEM \"file:///etc/passwd\">]><x>&y;</x>",
        ),
        refused("utf16", "send JSON in UTF-16", plan, b"\xff\xfe{\0}\0"),
    ]
}

fn doors() -> Vec<Attempt> {
    let nobody = |id: &str, title: &str, path: &str| {
        request(id, title, From::Anonymous, &format!("GET {path}"), b"", Expect::Refused, Trace::None)
    };
    let node = |id: &str, title: &str, head: &str| {
        request(id, title, From::Node, head, b"", Expect::Reason(&["ROLE_NOT_ALLOWED"]), Trace::Audited)
    };
    vec![
        nobody("metrics", "read metrics on the API's port", "/metrics"),
        nobody("healthz", "find a door that has no lock", "/healthz"),
        nobody("debug", "find a debugger", "/debug/pprof/"),
        nobody("openapi", "read the description of the API", "/v1/openapi.json"),
        nobody("files", "read a file", "/../../../etc/passwd"),
        nobody("whoami", "be somebody", "/v1/whoami"),
        node("node-jobs", "list jobs with a node's certificate", "GET /v1/jobs"),
        node("node-nodes", "list nodes with a node's certificate", "GET /v1/nodes"),
        node("node-token", "make a token with a node's certificate", "POST /v1/nodes/n1:createJoinToken"),
        node("node-tenants", "list tenants with a node's certificate", "GET /v1/tenants"),
        request(
            "grpc-over-1",
            "call gRPC over HTTP/1.1",
            From::Anonymous,
            "POST /rail.v1.JobService/ListJobs\r\nContent-Type: application/grpc",
            b"\0\0\0\0\0",
            Expect::Refused,
            Trace::None,
        ),
    ]
}

/// 10 MB of zeros as a gzip stream: one dynamic block would be small; stored as a run by hand it is 10 kB of `deflate`.
fn gzip_of_zeros() -> Vec<u8> {
    // Header; fixed-Huffman blocks of a zero followed by copies of 258 at distance 1 would need a bit writer: it is written here.
    let mut bits = Bits::default();
    bits.push(1, 1);
    bits.push(1, 2);
    // The literal 0 is 00110000.
    bits.push_reversed(0b0011_0000, 8);
    for _ in 0..(10_000_000 / 258) {
        // Length 258 is code 285, 11000101; distance 1 is 00000.
        bits.push_reversed(0b1100_0101, 8);
        bits.push_reversed(0, 5);
    }
    bits.push_reversed(0, 7);
    let mut all = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    all.extend(bits.done());
    all.extend([0; 8]);
    all
}

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn push(&mut self, value: u32, count: u32) {
        for bit in 0..count {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= (((value >> bit) & 1) as u8) << (self.used % 8);
            }
            self.used += 1;
        }
    }

    /// Huffman codes go with their first bit first.
    fn push_reversed(&mut self, value: u32, count: u32) {
        for bit in (0..count).rev() {
            self.push((value >> bit) & 1, 1);
        }
    }

    fn done(self) -> Vec<u8> {
        self.bytes
    }
}
