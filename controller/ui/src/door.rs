//! From what is asked for to status, headers and bytes. Pure.

use crate::files::{self, FILES, File, INDEX};

/// What pages may do: run the scripts and styles that come from here, and speak to the origin that they come from.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                          img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'self'; \
                          frame-ancestors 'none'";

/// Names that a path may begin with behind `/ui/`: the pages, which are all drawn in one document.
const PAGES: [&str; 8] = ["", "fabric", "jobs", "queue", "tenants", "rollouts", "audit", "doctor"];

/// A request, as far as it matters here.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// Still percent-encoded, beginning with `/ui`.
    pub path: &'a str,
    /// Behind the question mark; empty without one.
    pub query: &'a str,
    /// `If-None-Match`; empty without one.
    pub known: &'a str,
    /// Whoever asks takes gzip.
    pub gzip: bool,
}

/// What it is answered with. For HEAD the body is left out, and everything else stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status: 200, 304, 308 or 404.
    pub status: u16,
    /// In their order; names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// Empty where the status says that there is none.
    pub body: &'static [u8],
}

/// The answer to a GET. A file that is asked for with its hash is kept for a year; everything else is asked for again each time, and
/// sent only where it has changed.
#[must_use]
pub fn answer(asked: Asked<'_>) -> Answer {
    let Some(rest) = asked.path.strip_prefix("/ui") else { return nothing() };
    if rest.is_empty() {
        let location =
            if asked.query.is_empty() { "/ui/".to_owned() } else { format!("/ui/?{}", asked.query) };
        let mut headers = guards();
        headers.push(("location", location));
        return Answer { status: 308, headers, body: b"" };
    }
    match rest.strip_prefix('/').and_then(file) {
        Some(file) => send(file, asked),
        None => nothing(),
    }
}

/// The file of a path below `/ui/`: one of that name, or the document for a page.
fn file(path: &str) -> Option<&'static File> {
    let named = |name: &str| FILES.iter().find(|file| file.name == name);
    let plain =
        |segment: &str| segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let mut segments = path.split('/');
    let first = segments.next().unwrap_or_default();
    match path {
        INDEX => None,
        _ if PAGES.contains(&first) && segments.all(plain) => named(INDEX),
        _ => named(path),
    }
}

fn send(file: &'static File, asked: Asked<'_>) -> Answer {
    let hash = files::hash(file.name);
    // Weak, because the same file may go out packed or as it is.
    let tag = format!("W/\"{hash}\"");
    let same = asked.known.split(',').any(|known| known.trim().trim_start_matches("W/") == &tag[2..]);
    let kept = !hash.is_empty() && asked.query == hash;
    let keep = if kept { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut headers = guards();
    headers.push(("cache-control", keep.to_owned()));
    headers.push(("etag", tag));
    if same {
        return Answer { status: 304, headers, body: b"" };
    }
    headers.push(("content-type", file.kind.to_owned()));
    if !asked.gzip {
        return Answer { status: 200, headers, body: file.bytes() };
    }
    headers.push(("vary", "accept-encoding".to_owned()));
    headers.push(("content-encoding", "gzip".to_owned()));
    Answer { status: 200, headers, body: file.packed }
}

fn nothing() -> Answer {
    let mut headers = guards();
    headers.push(("content-type", "text/plain; charset=utf-8".to_owned()));
    Answer { status: 404, headers, body: b"there is no such page; the pages begin at /ui/\n" }
}

/// What every answer carries.
fn guards() -> Vec<(&'static str, String)> {
    vec![
        ("content-security-policy", POLICY.to_owned()),
        ("x-content-type-options", "nosniff".to_owned()),
        ("referrer-policy", "no-referrer".to_owned()),
        ("cross-origin-opener-policy", "same-origin".to_owned()),
        ("cross-origin-resource-policy", "same-origin".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(path: &str) -> Answer {
        answer(Asked { path, ..Asked::default() })
    }

    fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
        answer.headers.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    #[test]
    fn every_page_is_the_one_document() {
        let index = ask("/ui/").body;
        assert!(!index.is_empty());
        for page in
            ["/ui/fabric", "/ui/jobs", "/ui/jobs/nlp/train-1", "/ui/queue", "/ui/rollouts/", "/ui/doctor"]
        {
            let found = ask(page);
            assert_eq!((found.status, found.body), (200, index), "{page}");
            assert_eq!(header(&found, "content-type"), "text/html; charset=utf-8");
        }
    }

    #[test]
    fn whoever_asks_without_a_slash_is_sent_on() {
        let found = answer(Asked { path: "/ui", query: "a=b", ..Asked::default() });
        assert_eq!((found.status, header(&found, "location")), (308, "/ui/?a=b"));
        assert_eq!(header(&ask("/ui"), "location"), "/ui/");
    }

    #[test]
    fn every_answer_carries_the_policy() {
        for path in ["/ui", "/ui/", "/ui/app.js", "/ui/nothing"] {
            let found = ask(path);
            assert_eq!(header(&found, "content-security-policy"), POLICY, "{path}");
            assert_eq!(header(&found, "x-content-type-options"), "nosniff", "{path}");
            assert_eq!(header(&found, "referrer-policy"), "no-referrer", "{path}");
        }
        assert!(!POLICY.contains("unsafe"), "{POLICY}");
        for word in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(POLICY.contains(word), "{word}");
        }
    }

    #[test]
    fn nothing_else_is_there() {
        let elsewhere = [
            "/ui/nothing",
            "/ui/../v1/jobs",
            "/ui/jobs/../../etc/passwd",
            "/ui/jobs/%2e%2e/app.js",
            "/ui/jobs/a.b",
            "/ui//app.js/..",
            "/ui/manifest.txt",
            "/ui/index.html",
            "/ui/APP.JS",
            "/uix",
            "/v1",
            "",
        ];
        for path in elsewhere {
            assert_eq!(ask(path).status, 404, "{path}");
        }
    }

    #[test]
    fn a_file_that_is_known_is_not_sent_again() {
        let first = ask("/ui/app.js");
        let tag = header(&first, "etag").to_owned();
        assert!(tag.len() == 68 && first.status == 200, "{tag}");
        for known in [tag.clone(), format!("\"other\", {tag}"), tag[2..].to_owned()] {
            let again = answer(Asked { path: "/ui/app.js", known: &known, ..Asked::default() });
            assert_eq!((again.status, again.body.len()), (304, 0), "{known}");
            assert_eq!(header(&again, "etag"), tag);
        }
        let other = answer(Asked { path: "/ui/app.js", known: "\"other\"", ..Asked::default() });
        assert_eq!(other.status, 200);
    }

    #[test]
    fn files_go_out_packed_to_those_who_take_that() {
        let ask = |gzip| answer(Asked { path: "/ui/app.js", gzip, ..Asked::default() });
        let (plain, packed) = (ask(false), ask(true));
        assert_eq!((header(&plain, "content-encoding"), header(&packed, "content-encoding")), ("", "gzip"));
        assert_eq!(header(&plain, "etag"), header(&packed, "etag"));
        assert!(packed.body.starts_with(&[0x1f, 0x8b]) && packed.body.len() * 2 < plain.body.len());
    }

    #[test]
    fn a_file_is_kept_only_by_its_hash() {
        let hash = header(&ask("/ui/app.css"), "etag")[3..67].to_owned();
        let kept = answer(Asked { path: "/ui/app.css", query: &hash, ..Asked::default() });
        assert!(header(&kept, "cache-control").contains("immutable"));
        for query in ["", "other"] {
            let found = answer(Asked { path: "/ui/app.css", query, ..Asked::default() });
            assert_eq!(header(&found, "cache-control"), "no-cache");
        }
        assert_eq!(header(&ask("/ui/"), "cache-control"), "no-cache");
    }
}
