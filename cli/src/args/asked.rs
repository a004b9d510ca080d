//! What a job asks of its servers, said on the command line in place of its file.

use clap::Args;
use proto_model::{
    GpuModel, License, LicenseName,
    label::{check_key, check_value},
};
use proto_wire::v1::{self, selector_term::Operator};

use super::parse_size;

/// What a job asks of its servers.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "What the job asks, in place of its file")]
pub struct Asked {
    /// Models of GPU of which any will do, for example H100,H200: words of what the driver calls a GPU
    #[arg(long = "gpu-model", value_name = "MODEL", value_delimiter = ',', value_parser = parse_model)]
    pub gpu_models: Vec<String>,
    /// Conditions on the labels of its servers: KEY, !KEY, KEY=VALUE, KEY=VALUE,VALUE or KEY!=VALUE; with | between several one is
    /// enough, for example 'a100|h100'. May be repeated: then all must hold
    #[arg(long = "select", value_name = "CONDITION", value_parser = parse_term)]
    pub terms: Vec<v1::SelectorTerm>,
    /// A license that it holds while it runs, and how many (1 where nothing is said). May be repeated
    #[arg(long = "license", value_name = "NAME[:COUNT]", value_parser = parse_license)]
    pub licenses: Vec<(String, u32)>,
    /// CPUs of each server that are the job's alone; 0 asks for none
    #[arg(long, value_name = "CPUS")]
    pub cpus_per_node: Option<u32>,
    /// Memory of each server that is the job's alone, for example 64Gi or 512Mi; 0 asks for none
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory_per_node: Option<u64>,
}

impl Asked {
    /// Puts what was given in place of what the file says.
    pub fn put(&self, job: &mut v1::Job) {
        let spec = job.spec.get_or_insert_default();
        if !self.gpu_models.is_empty() {
            spec.placement.get_or_insert_default().gpu_model.clone_from(&self.gpu_models);
        }
        if !self.terms.is_empty() {
            spec.placement.get_or_insert_default().selector.clone_from(&self.terms);
        }
        if !self.licenses.is_empty() {
            spec.licenses = self.licenses.iter().cloned().collect();
        }
        if let Some(cpus) = self.cpus_per_node {
            spec.gang.get_or_insert_default().cpus_per_node = cpus;
        }
        if let Some(memory) = self.memory_per_node {
            spec.gang.get_or_insert_default().memory_per_node = memory;
        }
    }
}

fn parse_model(text: &str) -> Result<String, String> {
    GpuModel::new(text.trim()).map(|model| model.to_string()).map_err(|error| error.to_string())
}

/// Reads `matlab` and `scratch:40`.
fn parse_license(text: &str) -> Result<(String, u32), String> {
    let (name, count) = text.split_once(':').unwrap_or((text, "1"));
    let name = LicenseName::new(name).map_err(|error| error.to_string())?;
    let count = count.parse().ok().filter(|count| (1..=License::MOST).contains(count));
    let wrong = || format!("`{text}`: write NAME or NAME:COUNT, with a count from 1 to {}", License::MOST);
    Ok((name.to_string(), count.ok_or_else(wrong)?))
}

/// Reads `a100|h100`, `zone=a,b`, `zone!=a`, `!old`.
fn parse_term(text: &str) -> Result<v1::SelectorTerm, String> {
    let mut any_of: Vec<v1::SelectorTerm> = text.split('|').map(parse_one).collect::<Result<_, _>>()?;
    if any_of.len() == 1
        && let Some(one) = any_of.pop()
    {
        return Ok(one);
    }
    Ok(v1::SelectorTerm { any_of, ..v1::SelectorTerm::default() })
}

fn parse_one(text: &str) -> Result<v1::SelectorTerm, String> {
    let text = text.trim();
    let wrong = |why: &dyn std::fmt::Display| {
        format!(
            "`{text}` is not a condition ({why}): write KEY, !KEY, KEY=VALUE, KEY=VALUE,VALUE or KEY!=VALUE"
        )
    };
    let (key, operator, values) = if let Some(key) = text.strip_prefix('!') {
        (key, Operator::Absent, None)
    } else if let Some((key, values)) = text.split_once("!=") {
        (key, Operator::NotIn, Some(values))
    } else if let Some((key, values)) = text.split_once('=') {
        (key, Operator::In, Some(values))
    } else {
        (text, Operator::Exists, None)
    };
    check_key(key).map_err(|error| wrong(&error))?;
    let values: Vec<String> =
        values.into_iter().flat_map(|values| values.split(',')).map(str::to_owned).collect();
    for value in &values {
        check_value(value).map_err(|error| wrong(&error))?;
    }
    Ok(v1::SelectorTerm { key: key.to_owned(), operator: operator.into(), values, any_of: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(key: &str, operator: Operator, values: &[&str]) -> v1::SelectorTerm {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        v1::SelectorTerm { key: key.into(), operator: operator.into(), values, any_of: Vec::new() }
    }

    #[test]
    fn conditions_are_read_as_people_write_them() {
        assert_eq!(parse_term("fast").unwrap(), term("fast", Operator::Exists, &[]));
        assert_eq!(parse_term("!old").unwrap(), term("old", Operator::Absent, &[]));
        assert_eq!(parse_term("zone=a,b").unwrap(), term("zone", Operator::In, &["a", "b"]));
        assert_eq!(parse_term("zone!=a").unwrap(), term("zone", Operator::NotIn, &["a"]));
        let any_of = vec![term("a100", Operator::Exists, &[]), term("gpu", Operator::In, &["h100"])];
        let either = v1::SelectorTerm { any_of, ..v1::SelectorTerm::default() };
        assert_eq!(parse_term("a100 | gpu=h100").unwrap(), either);
        for bad in ["", "|", "a|", "=x", "!", "a b", "a=b c", "a=b|c d"] {
            assert!(parse_term(bad).is_err(), "{bad}");
        }
        assert!(parse_model("-").is_err() && parse_model(" H100 80GB ").unwrap() == "H100 80GB");
    }

    #[test]
    fn a_license_has_a_name_and_a_count() {
        for bad in ["", ":", "a:", "a:0", "a:-1", "a:x", "A", "a b:1", "a:1:2", "a:4000000000"] {
            assert!(parse_license(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_given_replaces_what_the_file_says_and_nothing_else() {
        let mut job = v1::Job::default();
        let place = v1::PlacementRequest {
            spares: 2,
            gpu_model: vec!["A100".into()],
            selector: vec![term("x", Operator::Exists, &[])],
            ..Default::default()
        };
        job.spec.get_or_insert_default().placement = Some(place.clone());
        Asked::default().put(&mut job);
        assert_eq!(job.spec.clone().unwrap().placement, Some(place));
        let terms = vec![parse_term("a|b").unwrap()];
        job.spec.get_or_insert_default().licenses = [("old".to_owned(), 1)].into();
        let licenses = vec![parse_license("matlab").unwrap(), parse_license("scratch:40").unwrap()];
        Asked { licenses, ..Asked::default() }.put(&mut job);
        let asked = &job.spec.as_ref().unwrap().licenses;
        assert_eq!((asked.len(), asked["matlab"], asked["scratch"]), (2, 1, 40));
        job.spec.get_or_insert_default().gang =
            Some(v1::Gang { nodes: 3, cpus_per_node: 7, ..Default::default() });
        Asked { gpu_models: vec!["H100".into()], terms: terms.clone(), ..Asked::default() }.put(&mut job);
        assert_eq!(job.spec.clone().unwrap().gang.unwrap().cpus_per_node, 7);
        Asked { cpus_per_node: Some(0), memory_per_node: Some(64 << 30), ..Asked::default() }.put(&mut job);
        let gang = v1::Gang { nodes: 3, memory_per_node: 64 << 30, ..Default::default() };
        assert_eq!(job.spec.clone().unwrap().gang, Some(gang));
        let place = job.spec.unwrap().placement.unwrap();
        assert_eq!((place.spares, place.gpu_model, place.selector), (2, vec!["H100".to_owned()], terms));
    }
}
