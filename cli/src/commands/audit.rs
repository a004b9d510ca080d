//! The audit log: listed, exported, and checked by whoever has the CA's certificate.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
};

use proto_audit::{Broken, Record, Summary, Verified, Verifier};
use proto_manifest::{read_audit_line, write_audit_line};
use proto_rpc::seal::CaKeys;
use proto_wire::v1;

use super::list;
use crate::{
    args::{AuditCommand, AuditList, Decision, Global},
    client::{Api, once, repeat},
    config::{ConfigFile, Environment, resolve},
    error::Error,
    output::{now, print},
    render,
};

/// Records of one page.
const PAGE: u32 = 500;

/// Runs it. Checking a file needs no cluster.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::File`] if a file cannot be read or written; [`Error::Differs`] if
/// the log or its export does not verify.
pub async fn run(
    command: &AuditCommand,
    global: &Global,
    env: &Environment,
    api: impl Fn() -> Result<Api, Error>,
) -> Result<(), Error> {
    match command {
        AuditCommand::Ls(args) => list(args, global, &api()?).await,
        AuditCommand::Export { out } => export(out.as_deref(), &api()?).await,
        AuditCommand::Verify { file: None } => {
            let api = api()?;
            verify(&ca_file(global, env)?, live(&api).await?).await
        }
        AuditCommand::Verify { file: Some(file) } => verify_file(&ca_file(global, env)?, file),
    }
}

async fn list(args: &AuditList, global: &Global, api: &Api) -> Result<(), Error> {
    let decision = match args.decision {
        None => "",
        Some(Decision::Allowed) => "allowed",
        Some(Decision::Denied) => "denied",
    };
    let request = v1::ListAuditRecordsRequest {
        // Of a context or of the environment a tenant would hide most records from an administrator who does not think of it.
        tenant: global.tenant.clone().unwrap_or_default(),
        who: args.who.clone().unwrap_or_default(),
        rpc: args.rpc.clone().unwrap_or_default(),
        decision: decision.to_owned(),
        since: args.since.map(|since| since.time(now())),
        until: args.until.map(|until| until.time(now())),
        ..v1::ListAuditRecordsRequest::default()
    };
    let most = if args.limit == 0 { usize::MAX } else { args.limit as usize };
    let mut all = v1::ListAuditRecordsResponse::default();
    loop {
        let page_size = u32::try_from(most - all.records.len()).unwrap_or(PAGE).min(PAGE);
        let page = repeat("list audit records", |_| {
            let page_token = all.next_page_token.clone();
            let request = v1::ListAuditRecordsRequest { page_size, page_token, ..request.clone() };
            let mut client = api.audit();
            async move { client.list_audit_records(request).await }
        });
        let page = page.await?;
        all.records.extend(page.records);
        all.next_page_token = page.next_page_token;
        if all.next_page_token.is_empty() || all.records.len() >= most {
            break;
        }
    }
    list::nothing(all.records.is_empty(), args.output, "records");
    let names =
        || all.records.iter().map(|record| format!("audit/{}", render::audit_number(record))).collect();
    let table = |wide| if all.records.is_empty() { String::new() } else { render::audit(&all.records, wide) };
    print(&render::render(args.output, &all, "rail.v1.ListAuditRecordsResponse", names, table)?)
}

async fn live(api: &Api) -> Result<tonic::Streaming<v1::AuditRecord>, Error> {
    let mut client = api.streaming().audit();
    once("export the audit log", client.export_audit_records(v1::ExportAuditRecordsRequest {})).await
}

async fn export(out: Option<&Path>, api: &Api) -> Result<(), Error> {
    let mut records = live(api).await?;
    let mut file = match out {
        Some(path) => {
            let made = OpenOptions::new().write(true).create_new(true).open(path);
            Some((made.map_err(|error| Error::file("create", path, error))?, path))
        }
        None => None,
    };
    let mut count = 0_u64;
    while let Some(record) = message(&mut records).await? {
        let line = write_audit_line(&record).map_err(|error| Error::Config(error.to_string()))?;
        match &mut file {
            Some((file, path)) => {
                file.write_all(line.as_bytes()).map_err(|error| Error::file("write", *path, error))?;
            }
            None => print(&line)?,
        }
        count += 1;
    }
    if let Some((file, path)) = file {
        file.sync_all().map_err(|error| Error::file("write", path, error))?;
        eprintln!("{count} records are in {}", path.display());
    }
    Ok(())
}

async fn message(records: &mut tonic::Streaming<v1::AuditRecord>) -> Result<Option<v1::AuditRecord>, Error> {
    records.message().await.map_err(|status| Error::rpc("export the audit log", &status))
}

/// The CA's certificate that this railctl trusts.
pub(super) fn ca_file(global: &Global, env: &Environment) -> Result<PathBuf, Error> {
    if let Some(ca) = &global.ca {
        return Ok(ca.clone());
    }
    let file = ConfigFile::load(env.config_path().as_deref())?;
    let none = || Error::Usage("which CA certificate? Give --ca FILE".to_owned());
    resolve(global, env, &file)?.ca.ok_or_else(none)
}

/// Says whether a message has a good signature.
type Signed = Box<dyn FnMut(&[u8], &[u8]) -> bool>;

fn verifier(ca: &Path) -> Result<Verifier<Signed>, Error> {
    let pem = std::fs::read_to_string(ca).map_err(|error| Error::file("read", ca, error))?;
    let keys = CaKeys::of_pem(&pem).map_err(|error| Error::Config(format!("{}: {error}", ca.display())))?;
    let signed = move |message: &[u8], signature: &[u8]| keys.have_signed(message, signature);
    Ok(Verifier::new(Box::new(signed)))
}

async fn verify(ca: &Path, mut records: tonic::Streaming<v1::AuditRecord>) -> Result<(), Error> {
    let mut verifier = verifier(ca)?;
    while let Some(wire) = message(&mut records).await? {
        let seq = wire.seq;
        let record = Record::try_from(wire);
        let record = record.map_err(|error| Error::Differs(format!("audit record {seq}: {error}")))?;
        verifier.take(&record).map_err(|broken| wrong("the cluster's audit log", &broken))?;
    }
    let sum = verifier.finish().map_err(|broken| wrong("the cluster's audit log", &broken))?;
    print(&sound("the cluster's audit log", &sum))
}

fn verify_file(ca: &Path, path: &Path) -> Result<(), Error> {
    let name = path.display().to_string();
    let reader: Box<dyn BufRead> = if name == "-" {
        Box::new(BufReader::new(io::stdin()))
    } else {
        Box::new(BufReader::new(File::open(path).map_err(|error| Error::file("read", path, error))?))
    };
    let sum = check(verifier(ca)?, reader, &name)?;
    print(&sound(&name, &sum))
}

fn check(
    mut verifier: Verifier<impl FnMut(&[u8], &[u8]) -> bool>,
    mut reader: impl BufRead,
    name: &str,
) -> Result<Verified, Error> {
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        // A byte more than a line may have, so that no file can fill the memory.
        let most = proto_manifest::MAX_LINE as u64 + 2;
        let mut bounded = io::Read::take(&mut reader, most);
        let read = bounded.read_until(b'\n', &mut text);
        if read.map_err(|error| Error::file("read", name, error))? == 0 {
            break;
        }
        let record = read_audit_line(line, text.strip_suffix(b"\n").unwrap_or(&text));
        let record = record.map_err(|error| Error::Differs(format!("{name}: {error}")))?;
        verifier.take(&record).map_err(|broken| wrong(&format!("{name}, line {line}"), &broken))?;
    }
    if verifier.so_far().records() == 0 {
        return Err(Error::Differs(format!(
            "{name} has no records; every export ends with a signed checkpoint"
        )));
    }
    verifier.finish().map_err(|broken| wrong(name, &broken))
}

fn wrong(place: &str, broken: &Broken) -> Error {
    Error::Differs(format!("{place}: {broken}"))
}

fn sound(place: &str, sum: &Verified) -> String {
    let mut text = format!("{place} is sound:");
    for (what, sum) in [("records", &sum.changes), ("denial records", &sum.denials)] {
        if sum.records > 0 {
            let Summary { records, checkpoints, first, last, last_ms, .. } = *sum;
            let time = render::time(last_ms);
            text += &format!(
                "\n  {what} {first} to {last} ({records}), {checkpoints} signed checkpoints, the last one of {time}"
            );
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proto_audit::{Actor, Claim, Content, Denial, Log, START};

    use super::*;

    fn lines() -> Vec<String> {
        let actor = Arc::new(Actor::default());
        let (mut records, mut head) = (Vec::new(), START);
        for seq in 1..4 {
            let denial =
                Denial { actor: Arc::clone(&actor), reason: "R".into(), detail: String::new(), count: seq };
            let record = Record::new(Log::Denials, seq, seq, head, Content::Denial(denial));
            head = record.hash;
            records.push(record);
        }
        let (log, beside) = (Log::Denials, None);
        let claim = Claim { log, seq: 4, time_ms: 4, head, epoch: 1, oldest: 1, anchor: START, beside };
        records.push(claim.record(claim.message()));
        records.iter().map(|record| write_audit_line(&record.into()).unwrap()).collect()
    }

    fn checked(lines: &[String]) -> Result<Verified, String> {
        let verifier = Verifier::new(|message: &[u8], signature: &[u8]| message == signature);
        check(verifier, lines.concat().as_bytes(), "f").map_err(|error| error.to_string())
    }

    #[test]
    fn an_export_is_checked_line_by_line_and_what_is_wrong_is_named() {
        let lines = lines();
        assert_eq!(checked(&lines).unwrap().denials.records, 4);
        let changed = |at: usize, from: &str, to: &str| {
            let mut lines = lines.clone();
            assert!(lines[at].contains(from), "{}", lines[at]);
            lines[at] = lines[at].replace(from, to);
            checked(&lines).unwrap_err()
        };
        assert_eq!(
            changed(1, "\"count\":\"2\"", "\"count\":\"3\""),
            "f, line 2: denial record 2: what it says does not have its hash: it was changed"
        );
        assert!(changed(1, "{", "").starts_with("f: line 2: "));
        let missing: Vec<String> = [&lines[..1], &lines[2..]].concat();
        assert_eq!(
            checked(&missing).unwrap_err(),
            "f, line 2: denial record 3: record 2 is missing before it"
        );
        assert!(checked(&lines[..3]).unwrap_err().contains("more may have been cut off"));
        assert!(checked(&[]).unwrap_err().contains("no records"));
    }
}
