//! The page of reason codes: those of refused calls, read where the programs say them; those of reasons, which are an enumeration
//! (`ReasonCode`); and those of conditions and findings, which their rooms keep.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use proto_model::ReasonCode;

use super::source::{self, Source};
use crate::process::Result;

/// What a code is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A call is refused: `ErrorDetail.reason`, `error.reason` of JSON.
    Refusal,
    /// A job, a node or a rail is as it is: the code of a reason, a condition or a finding.
    Reason,
}

/// One code.
struct Code {
    code: String,
    kind: Kind,
    meaning: String,
}

/// Codes of reasons by what tells them: a heading, and folders or files of the sources.
const PARTS: [(&str, &[&str]); 6] = [
    (
        "Jobs: why one waits, cannot start, or was stopped",
        &[
            "controller/queue/src",
            "controller/scheduler/src",
            "controller/state/src",
            "controller/core/src",
            "proto/model/src/cause.rs",
        ],
    ),
    ("The fabric and its documents", &["controller/topology/src", "controller/fabric/src"]),
    ("Certification", &["controller/certify/src"]),
    (
        "Servers: inventory, isolation, attempts",
        &[
            "node-agent/core/src",
            "node-agent/host/src",
            "node-agent/qos-apply/src",
            "node-agent/rank/src",
            "node-agent/attempt/src",
            "node-agent/supervisor/src",
            "node-agent/src",
        ],
    ),
    ("Health of rails", &["proto/model/src/nic_condition.rs"]),
    ("Ways from the memory of GPUs", &["proto/model/src/path_cause.rs"]),
];
/// Where calls are refused.
const CALLS: [&str; 4] = ["cli", "controller", "proto/manifest", "proto/rpc"];
/// Functions of `proto/rpc` that refuse a certificate by its code.
const HANDSHAKE: [&str; 2] = [" show", " untrusted"];
/// What looks like a code and is none: a header of a table, a name of a call or of what is no reason, a prefix of variables.
const NONE: [&str; 5] = ["TENANT", "Handshake", "CreateJob", "RAIL_CONTROLLER_CA_PASSPHRASE", "SPANK_RAIL_"];
/// Meanings of codes that have none beside them in the sources, or one that says too little by itself.
const MEANINGS: [(&str, &str); 51] = [
    ("BAD_IDENTITY", "The name cannot be part of a certificate."),
    ("BAD_PLACEMENT", "A placement that is stored names what no node can be called: a defect."),
    ("BAD_TENANT", "The certificate names what no tenant can be called."),
    ("CA_FAILED", "The certificate authority could not issue: a defect, or its key cannot be used."),
    (
        "INVALID_BODY",
        "The JSON body is not what the call takes; each violation names line, column and field.",
    ),
    ("LEAD_UNCONFIRMED", "The leader is not sure that it still leads; nothing was done. Try again."),
    ("NOT_A_NODE", "The certificate names what no node can be called."),
    ("NOT_A_SWITCH", "The certificate names what no switch can be called."),
    ("NOT_LEADING", "This controller does not lead, or is ending; nothing was done. Another one answers."),
    ("NO_FIRST_MESSAGE", "The stream ended, or began with another message than it has to."),
    ("NO_JSON", "An answer could not be written as JSON: a defect."),
    ("NO_RANDOM", "The kernel gave no random bytes."),
    (
        "QUEUE_FULL",
        "The leader has as many requests waiting as it takes. Try again after the time that is told.",
    ),
    ("REVISION_IN_FUTURE", "The revision to watch from has not been yet."),
    ("ROLE_NOT_GRANTABLE", "Nobody gives a role that is not below his own, or outside of his tenant."),
    ("SILENT", "A stream was opened, and nothing was said on it in time."),
    ("STORED_VALUE_CORRUPT", "A stored value cannot be read. See `rail-controller store verify`."),
    ("STORE_UNREADABLE", "The store does not answer. Jobs go on."),
    ("STORE_UNWRITABLE", "The store takes no writes: a full disk, or an etcd without room. Jobs go on."),
    ("TENANT_LIMIT", "The caller's tenant has as many calls or streams at work as it may."),
    ("TOKEN_EXPIRED", "The API token has ended."),
    ("TOO_MANY_REVOCATIONS", "As many revocations are kept as there may be."),
    ("TRANSACTION_TOO_LARGE", "One change is larger than etcd takes; see `--etcd-max-request-bytes`."),
    ("UNREACHABLE", "No controller answers at the address."),
    ("UNSUPPORTED_MEDIA_TYPE", "The body is not JSON, or is encoded; the message says which header to send."),
    ("WATCH_LAGGED", "The reader of a watch was too slow. List again and watch from there."),
    ("CERTIFICATE_EXPIRED", "The certificate has ended; have a new one issued."),
    (
        "CERTIFICATE_REFUSED",
        "The controller does not take the certificate: it is another cluster's, or of no use there.",
    ),
    ("CERTIFICATE_REVOKED", "The certificate or the token was revoked."),
    ("FOREIGN_IDENTITY", "The certificate names another cluster, or nobody."),
    ("SERVER_CERTIFICATE_EXPIRED", "The controller's certificate has ended, or a clock is wrong."),
    ("SERVER_CERTIFICATE_NOT_YET_VALID", "The controller's certificate has not begun: a clock is wrong."),
    ("SERVER_NOT_TRUSTED", "The controller's certificate is not from the CA that is trusted here."),
    ("UNKNOWN_AUTHORITY", "The certificate is not from the cluster's CA."),
    ("MAP_TOO_LARGE", "The fabric is larger than a picture of all of it may be; ask for it by the API."),
    ("NO_MAP", "The picture of the fabric could not be made: a defect."),
    ("NOT_RUNNING", "The job does not run, so no step begins in it."),
    ("NO_PAGE_TOKEN", "The page token is not one of this list, or is too old; list again."),
    ("NO_PAGE", "A list has no end: a defect."),
    ("DEADLINE_EXCEEDED", "The call did not end within its time."),
    ("AGENT_NOT_CONNECTED", "A server's agent is not connected, so nothing can be started there."),
    ("PLANNING_FAILED", "What was asked for could not be worked out: a defect."),
    (
        "SWITCH_NOT_PLANNED",
        "The configuration of a switch cannot be planned; each violation names where, and what is wrong.",
    ),
    ("TOO_MANY_DOCUMENTS", "A call has more documents than it may."),
    ("ROLE_NOT_ALLOWED", "The caller's role may not make this call."),
    (
        "BAD_ID_TOKEN",
        "The signed token is not good here: its issuer, audience, time, signature or form; the message names which.",
    ),
    (
        "BAD_SIGN_ON",
        "A sign-on of the web pages was not done: it is not this browser's, took too long, was done already, or the provider refuses it.",
    ),
    (
        "ISSUER_AWAY",
        "The OpenID provider does not answer, and its last keys are too old; other credentials are taken as ever.",
    ),
    (
        "NO_GRANT",
        "The token is good, but its holder has no usable name here, or nothing grants a role to them (`--oidc-grant`).",
    ),
    ("NO_SIGN_ON_STATE", "A sign-on of the web pages could not be begun or finished: a defect."),
    ("FOREIGN_TENANT", "The caller may act in its own tenant only."),
];

/// The page.
///
/// # Errors
/// A source cannot be read.
pub fn page() -> Result<String> {
    let mut text = String::from(
        "# Reason codes\n\nCodes are stable: programs may compare them. Messages are for people and may change. `…` stands for what a \
         message fills in.\n\nThis page is generated from the sources by `cargo xtask docs`.\n\n## Refused calls\n\n`railctl` prints the \
         code of a refused call with `-o json` (`error.reason`); REST and gRPC carry it as `reason`.\n\n",
    );
    let mut used = BTreeSet::new();
    table(&mut text, &mut used, &all(&source::read(&CALLS)?, Kind::Refusal))?;
    text.push_str("\n## Reasons\n\nCodes of reasons, conditions and findings, as `railctl explain`, `describe`, `get` and `doctor` show them.\n");
    for (title, codes) in ReasonCode::SECTIONS {
        let _ = write!(text, "\n### {title}\n\n| code | meaning |\n|---|---|\n");
        for code in *codes {
            let _ = writeln!(text, "| `{code}` | {} |", code.meaning());
        }
    }
    let mut listed: BTreeSet<String> = ReasonCode::ALL.iter().map(ToString::to_string).collect();
    for (title, folders) in PARTS {
        let mut found = all(&source::read(folders)?, Kind::Reason);
        found.retain(|code, _| listed.insert(code.clone()));
        if !found.is_empty() {
            let _ = write!(text, "\n### {title}\n\n");
            table(&mut text, &mut used, &found)?;
        }
    }
    match MEANINGS.iter().find(|(code, _)| !used.contains(*code)) {
        Some((code, _)) => {
            Err(format!("docs/reasons.rs has a meaning for {code}, which nothing says").into())
        }
        None => Ok(text),
    }
}

/// Codes in the first cells of a page's tables that the page of codes does not have: they were renamed, or nobody says them.
pub fn unknown(page: &str, codes: &str) -> Vec<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let words = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let missing = words.filter(|word| kind(word).is_some() && !codes.contains(&format!("| `{word}` |")));
    missing.map(str::to_owned).collect()
}

/// A table of codes; an error names one that says nothing to a reader.
fn table(text: &mut String, used: &mut BTreeSet<String>, codes: &BTreeMap<String, String>) -> Result<()> {
    text.push_str("| code | meaning |\n|---|---|\n");
    for (code, found) in codes {
        let meaning =
            MEANINGS.iter().find(|(known, _)| known == code).map_or(found.as_str(), |(_, meaning)| meaning);
        if meaning.is_empty() {
            return Err(
                format!("the code {code} has no meaning beside it: give it one in docs/reasons.rs").into()
            );
        }
        used.insert(code.clone());
        let _ = writeln!(text, "| `{code}` | {meaning} |");
    }
    Ok(())
}

/// Every code of a kind with what it means: what comes with an enumeration's own words wins over a message.
fn all(sources: &[Source], kind: Kind) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for source in sources {
        for code in enumerated(source) {
            add(&mut found, code, kind);
        }
    }
    for source in sources {
        for code in messages(source) {
            add(&mut found, code, kind);
        }
    }
    found
}

fn add(found: &mut BTreeMap<String, String>, code: Code, kind: Kind) {
    if code.kind == kind {
        let meaning = found.entry(code.code).or_default();
        if meaning.is_empty() {
            *meaning = shown(&code.meaning);
        }
    }
}

/// Which kind a word is a code of, by how it is written.
fn kind(word: &str) -> Option<Kind> {
    let first = word.chars().next().is_some_and(|c| c.is_ascii_uppercase());
    let letters = word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !first || !letters || word.len() < 4 || NONE.contains(&word) {
        None
    } else if word.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
        Some(Kind::Refusal)
    } else {
        let lower = word.chars().any(|c| c.is_ascii_lowercase());
        (lower && !word.contains('_')).then_some(Kind::Reason)
    }
}

/// Codes of enumerations and constants: `Self::Variant … => "CODE"` in a function `code`, `Variant = "Code"` in a `word!`, and `const NAME:
/// &str = "Code"`; their words are what is written above the variant or the constant. What only a list names has none.
fn enumerated(source: &Source) -> Vec<Code> {
    let mut found = Vec::new();
    let lines: Vec<&str> = source.text.lines().collect();
    let (mut inside, mut listed, mut of) = (false, false, "");
    for (at, line) in lines.iter().enumerate() {
        let trimmed = line.trim();
        of = line.strip_prefix("impl ").map_or(of, |rest| rest.trim_end_matches(" {"));
        inside = (inside || line.contains("fn code(")) && !matches!(*line, "    }" | "}");
        listed = (listed || line.starts_with("pub const CONTROLLER_CAUSES")) && *line != "];";
        let value = |text: &str| text.split('"').next().unwrap_or_default().to_owned();
        let arm = trimmed.split_once("=> \"").filter(|_| inside);
        let begins =
            |left: &str| left.starts_with(char::is_uppercase) && left.chars().all(char::is_alphanumeric);
        let word = trimmed.split_once(" = \"").filter(|(left, _)| begins(left));
        let constant = trimmed.split_once(": &str = \"").filter(|(left, _)| left.contains("const "));
        let (code, meaning) = if let Some((variants, code)) = arm {
            let variants = variants.split('|').map(|variant| variant.trim().trim_start_matches("Self::"));
            let names = variants.map(|v| v.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default());
            let mut meanings: Vec<String> = names.filter_map(|name| variant(&lines, of, name)).collect();
            meanings.dedup();
            (value(code), meanings.join(" Or: "))
        } else if let Some((_, code)) = word.or(constant) {
            (value(code), above(lines.get(..at).unwrap_or_default()))
        } else if let Some(code) = trimmed.strip_prefix('"').filter(|_| listed) {
            (value(code), String::new())
        } else {
            continue;
        };
        // A constant of which nothing is said is no code.
        if let Some(kind) = kind(&code).filter(|_| constant.is_none() || !meaning.is_empty()) {
            found.push(Code { code, kind, meaning });
        }
    }
    found
}

/// What is written above a variant of an enumeration.
fn variant(lines: &[&str], of: &str, name: &str) -> Option<String> {
    let head = format!("enum {of} {{");
    let from = lines.iter().position(|line| line.ends_with(&head))?;
    let begins = |line: &str| {
        let rest = line.trim().strip_prefix(name);
        rest.is_some_and(|rest| [",", "(", " {"].iter().any(|next| rest.starts_with(next)))
    };
    let at = lines.iter().skip(from).position(|line| line.starts_with("    ") && begins(line))? + from;
    Some(above(lines.get(..at)?)).filter(|meaning| !meaning.is_empty())
}

/// The words of documentation at the end of these lines, before attributes.
fn above(lines: &[&str]) -> String {
    let mut words: Vec<&str> = Vec::new();
    let mut attribute = false;
    for line in lines.iter().rev().map(|line| line.trim()) {
        match line.strip_prefix("///") {
            Some(said) => words.push(said.trim()),
            // What thiserror prints stands between the words and the variant, on one line or several.
            None if words.is_empty() && (line.starts_with("#[") || line.ends_with(")]")) => {
                attribute = !line.starts_with("#[");
            }
            None if words.is_empty() && attribute => {}
            None => break,
        }
    }
    words.reverse();
    words.join(" ")
}

/// Codes that are said with their message: `Reason::new("Code", …)`, `RpcError::new(class, "CODE", …)`, and pairs of both.
fn messages(source: &Source) -> Vec<Code> {
    let mut found = Vec::new();
    for call in source::calls(&source.text, "") {
        let word = |index: usize| {
            let argument: &String = call.args.get(index)?;
            let word = argument.strip_prefix('"')?.strip_suffix('"')?;
            Some((word.to_owned(), kind(word)?))
        };
        let before = source.text.get(..call.at).unwrap_or_default();
        let begins = before.lines().next_back().unwrap_or_default().trim_start();
        let shown = HANDSHAKE.iter().any(|name| before.ends_with(name));
        let (place, reported) = match (word(0), word(1)) {
            (Some(reported), _) if reported.1 == Kind::Reason || shown => (0, reported),
            (_, Some(reported)) if reported.1 == Kind::Refusal && before.ends_with("::new") => (1, reported),
            _ => continue,
        };
        // A tuple of code, scope and words is no call.
        let tuple = call.args.len() == 3 && !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let at = if tuple { 2 } else { place + 1 };
        let Some(message) = call.args.get(at).filter(|_| !begins.starts_with("//")) else { continue };
        if let Some(meaning) = source::said(&source.text, call.at, message) {
            found.push(Code { code: reported.0, kind: reported.1, meaning });
        } else if before.ends_with("Reason::new") || reported.1 == Kind::Refusal {
            found.push(Code { code: reported.0, kind: reported.1, meaning: String::new() });
        }
    }
    found
}

/// A meaning for a cell of a table: what a message fills in becomes `…`, links of rustdoc become what they show.
fn shown(meaning: &str) -> String {
    let mut said = String::new();
    let mut depth = 0_usize;
    for c in meaning.chars() {
        match c {
            '{' => {
                depth += 1;
                if depth == 1 {
                    said.push('…');
                }
            }
            '}' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            '|' => said.push_str("\\|"),
            '<' => said.push_str("&lt;"),
            c => said.push(c),
        }
    }
    // `HAVE` and `ARE` stand for the verb of a sentence about so many nodes.
    let said = said.replace("[`", "`").replace("`]", "`");
    let about = |verb: &str, words: &str| said.strip_prefix(verb).map(|rest| format!("{words}{rest}"));
    about("HAVE ", "Nodes have ").or_else(|| about("ARE ", "Nodes are ")).unwrap_or(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_with_what_they_mean() {
        let text = "enum E {\n    Other,\n    /// The name\n    /// rests.\n    #[error(\n        \"text\"\n    )]\n    Rests { a: u8 },\n}\n\
                    impl E {\n    fn code(&self) {\n        match self {\n            Self::Rests { .. } => \"NAME_RESTS\",\n        }\n    }\n}\n\
                    /// Words.\npub const X: &str = \"TimeIsUp\";\n\
                    let text = format!(\"rail {rail} is gone\");\nReason::new(\"RailGone\", text);\n\
                    RpcError::new(ErrorClass::Gone, \"OLD_REVISION\", \"list <again>\");\n";
        let sources = [Source { path: "a.rs".into(), text: text.into() }];
        let refusals = all(&sources, Kind::Refusal);
        assert_eq!(refusals["NAME_RESTS"], "The name rests.");
        assert_eq!(refusals["OLD_REVISION"], "list &lt;again>");
        let page = "| code | cause |\n| `RailGone`, `OldRail` | `Other` |\n| `rail` | x |\n";
        assert_eq!(unknown(page, "| `RailGone` | x |\n"), ["OldRail"]);
        let reasons = all(&sources, Kind::Reason);
        assert_eq!(
            (reasons["RailGone"].as_str(), reasons["TimeIsUp"].as_str()),
            ("rail … is gone", "Words.")
        );
    }
}
