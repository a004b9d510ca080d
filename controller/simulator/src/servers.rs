//! Servers that differ: what each is, and lists of them (`openb_node_list_*.csv` of Alibaba clusterdata, cluster-trace-gpu-v2023, or a
//! list of the site's own with the same columns).

use std::fmt;

use thiserror::Error;

use crate::trace::{Fields, Header, gpus_of, shown};

/// Kinds of servers of one list at most.
pub const KINDS: usize = 64;
/// Rows of a list at most.
pub const MAX_SERVERS: usize = 1_000_000;
/// CPUs that a server is believed to have at most.
const MAX_CPUS: f64 = 65_536.0;
/// MiB of memory that a server is believed to have at most.
const MAX_MIB: f64 = 1e9;

/// What a server is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Kind {
    /// Its GPUs; 1 to 64.
    pub gpus: u32,
    /// Their model; may be empty.
    pub model: String,
    /// Its CPUs; 0 if not known.
    pub cpus: u32,
    /// Bytes of its memory; 0 if not known.
    pub memory: u64,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.gpus == 1 { "GPU" } else { "GPUs" };
        write!(f, "{} {what}", self.gpus)?;
        if !self.model.is_empty() {
            write!(f, " {}", self.model)?;
        }
        if self.cpus > 0 {
            write!(f, ", {} CPUs", self.cpus)?;
        }
        if self.memory > 0 {
            write!(f, ", {} GiB", self.memory >> 30)?;
        }
        Ok(())
    }
}

/// A server of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name in the list.
    pub name: String,
    /// What the server is: its CPUs, memory and GPUs.
    pub kind: Kind,
}

/// A list that was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Servers {
    /// In the list's order; those with GPUs.
    pub servers: Vec<Listed>,
    /// Rows of servers without GPUs, which take no job of a trace.
    pub without_gpus: usize,
}

/// Why a text is no list of servers.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ServersError {
    /// The first line is no header of such a list.
    #[error(
        "line 1: '{found}' begins no list of servers; a list has a line of columns (sn,cpu_milli,memory_mib,gpu,model; sn and gpu are needed) and a row for each server"
    )]
    NoHeader {
        /// The begin of the first line, shortened.
        found: String,
    },
    /// A row is wrong.
    #[error("line {line}, {field}: {what}")]
    Row {
        /// Line of the text, from 1.
        line: usize,
        /// The column that is wrong.
        field: &'static str,
        /// What is wrong with it, in words.
        what: String,
    },
    /// More servers than are read.
    #[error("the list has more than {MAX_SERVERS} servers")]
    TooLong,
    /// No server with a GPU.
    #[error("the list has no server with GPUs")]
    Nothing,
}

/// Reads a list.
///
/// # Errors
/// [`ServersError`] with the line and the column.
pub fn read(text: &str) -> Result<Servers, ServersError> {
    let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let (first, _) = lines.next().ok_or(ServersError::Nothing)?;
    let no_header = || ServersError::NoHeader { found: shown(first) };
    let header = Header::new(first.trim_start_matches('\u{feff}'), 1).map_err(|_| no_header())?;
    if header.place("sn").is_none() || header.place("gpu").is_none() {
        return Err(no_header());
    }
    let (mut found, mut names) = (Servers::default(), std::collections::BTreeMap::new());
    for (text, line) in lines {
        let row = |field, what: String| ServersError::Row { line, field, what };
        let server = listed(&header, text).map_err(|(field, what)| row(field, what))?;
        if let Some(first) = names.insert(server.name.clone(), line) {
            return Err(row("sn", format!("'{}' is on line {first} already", shown(&server.name))));
        }
        match server.kind.gpus {
            0 => found.without_gpus += 1,
            _ => found.servers.push(server),
        }
        if found.servers.len() > MAX_SERVERS {
            return Err(ServersError::TooLong);
        }
    }
    if found.servers.is_empty() { Err(ServersError::Nothing) } else { Ok(found) }
}

fn listed(header: &Header, text: &str) -> Result<Listed, (&'static str, String)> {
    let fields = Fields::split(text, header).map_err(|fault| (fault.field, fault.what))?;
    let number = |field: &'static str, most: f64| {
        let number = fields.number(field).map_err(|fault| (fault.field, fault.what))?;
        match number {
            Some(number) if !(0.0..=most).contains(&number) => {
                Err((field, format!("{number} is not from 0 to {most}")))
            }
            number => Ok(number.unwrap_or(0.0)),
        }
    };
    let name = fields.text("sn").to_owned();
    if name.is_empty() {
        return Err(("sn", "nothing is there".to_owned()));
    }
    let gpus = number("gpu", 64.0)?;
    let (gpus, part) = if gpus == 0.0 {
        (0, false)
    } else {
        gpus_of(gpus, "gpu").map_err(|fault| (fault.field, fault.what))?
    };
    if part {
        return Err(("gpu", "a server has whole GPUs".to_owned()));
    }
    // What is not whole is less: a server gives no more than it has.
    let cpus = (number("cpu_milli", MAX_CPUS * 1e3)? / 1e3) as u32;
    let memory = (number("memory_mib", MAX_MIB)? as u64) << 20;
    Ok(Listed { name, kind: Kind { gpus, model: fields.text("model").to_owned(), cpus, memory } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_with_what_each_server_is() {
        let text = "sn,cpu_milli,memory_mib,gpu,model\nn0,96000,393216,8,V100M32\n\nn1,32000,262144,0,\nn2,64500,262144,2,P100\n";
        let found = read(text).unwrap();
        assert_eq!((found.servers.len(), found.without_gpus), (2, 1));
        let kind = Kind { gpus: 8, model: "V100M32".into(), cpus: 96, memory: 384 << 30 };
        assert_eq!(found.servers[0], Listed { name: "n0".into(), kind });
        assert_eq!(found.servers[1].kind.cpus, 64, "no more than it has");
        assert_eq!(found.servers[0].kind.to_string(), "8 GPUs V100M32, 96 CPUs, 384 GiB");
        let small = read("sn,gpu\na,1\n").unwrap();
        assert_eq!(small.servers[0].kind.to_string(), "1 GPU");
    }

    #[test]
    fn what_is_no_list_is_told_with_its_place() {
        let wrong = |text: &str| read(text).unwrap_err().to_string();
        assert!(wrong("name,gpus\na,8\n").starts_with("line 1: 'name,gpus' begins no list of servers"));
        assert_eq!(wrong("sn,gpu\na,8\nb,x\n"), "line 3, gpu: 'x'");
        assert_eq!(wrong("sn,gpu\na,8\na,8\n"), "line 3, sn: 'a' is on line 2 already");
        assert_eq!(wrong("sn,gpu\na,65\n"), "line 2, gpu: 65 is not from 0 to 64");
        assert_eq!(wrong("sn,gpu\na,-1\n"), "line 2, gpu: -1 is not from 0 to 64");
        assert_eq!(wrong("sn,gpu\na,0.5\n"), "line 2, gpu: a server has whole GPUs");
        assert_eq!(wrong("sn,gpu\n,8\n"), "line 2, sn: nothing is there");
        assert!(
            wrong("sn,gpu\na\n").starts_with("line 2, the row: it has 1 fields"),
            "{}",
            wrong("sn,gpu\na\n")
        );
        assert_eq!(wrong("sn,gpu\na,0\n"), "the list has no server with GPUs");
        assert_eq!(wrong(""), "the list has no server with GPUs");
    }
}
