//! Secrets and configs.

use proto_wire::v1;

use super::Table;

fn time(at: Option<&prost_types::Timestamp>) -> String {
    at.map_or_else(
        || "-".to_owned(),
        |at| prost_types::Timestamp { seconds: at.seconds, nanos: 0 }.to_string(),
    )
}

fn row(table: &mut Table, metadata: Option<&v1::Metadata>, status: Option<&v1::DataStatus>, words: &str) {
    let (metadata, status) = (metadata.cloned().unwrap_or_default(), status.cloned().unwrap_or_default());
    let bytes: u64 = status.keys.iter().map(|key| u64::from(key.size)).sum();
    // Viewers see no keys of secrets.
    let count = |number: u64| if status.keys.is_empty() { "-".to_owned() } else { number.to_string() };
    table.row([
        metadata.name,
        count(status.keys.len() as u64),
        count(bytes),
        metadata.generation.to_string(),
        time(status.update_time.as_ref()),
        status.updated_by.clone(),
        words.to_owned(),
    ]);
}

/// A list of secrets.
#[must_use]
pub fn secrets(list: &[v1::Secret]) -> Table {
    let mut table = Table::new(["SECRET", "KEYS", "BYTES", "GENERATION", "UPDATED", "BY", "DESCRIPTION"]);
    for one in list {
        row(&mut table, one.metadata.as_ref(), one.status.as_ref(), &one.description);
    }
    table
}

/// A list of configs.
#[must_use]
pub fn configs(list: &[v1::Config]) -> Table {
    let mut table = Table::new(["CONFIG", "KEYS", "BYTES", "GENERATION", "UPDATED", "BY", "DESCRIPTION"]);
    for one in list {
        row(&mut table, one.metadata.as_ref(), one.status.as_ref(), &one.description);
    }
    table
}

fn facts(description: &str, generation: u64, status: &v1::DataStatus) -> Vec<(&'static str, String)> {
    vec![
        ("Description", description.to_owned()),
        ("Generation", generation.to_string()),
        ("Updated", time(status.update_time.as_ref())),
        ("By", status.updated_by.clone()),
    ]
}

/// Facts about a secret, and its keys.
#[must_use]
pub fn secret_facts(secret: &v1::Secret) -> (Vec<(&'static str, String)>, Table) {
    let status = secret.status.clone().unwrap_or_default();
    let generation = secret.metadata.clone().unwrap_or_default().generation;
    let mut table = Table::new(["KEY", "BYTES", "CHANGED-IN"]);
    for key in &status.keys {
        table.row([key.name.clone(), key.size.to_string(), key.revision.to_string()]);
    }
    (facts(&secret.description, generation, &status), table)
}

/// Facts about a config, and its values.
#[must_use]
pub fn config_facts(config: &v1::Config) -> (Vec<(&'static str, String)>, Table) {
    let status = config.status.clone().unwrap_or_default();
    let generation = config.metadata.clone().unwrap_or_default().generation;
    let mut table = Table::new(["KEY", "BYTES", "CHANGED-IN", "VALUE"]);
    for key in &status.keys {
        // One line for each.
        let value = config.data.get(&key.name).map(|text| text.escape_debug().to_string());
        let value = value.unwrap_or_default();
        table.row([key.name.clone(), key.size.to_string(), key.revision.to_string(), value]);
    }
    (facts(&config.description, generation, &status), table)
}

/// What of a job's environment is where: `all of secret/s3, MODE of config/train:mode`.
#[must_use]
pub fn env_from(spec: &v1::JobSpec) -> String {
    use v1::{env_source::Source as S, job_spec::Work};
    let sources = match &spec.work {
        Some(Work::Command(command)) => command.env_from.as_slice(),
        Some(Work::Allocation(held)) => held.env_from.as_slice(),
        Some(Work::Collective(_)) | None => &[],
    };
    let one = |source: &v1::EnvSource| {
        let (kind, from) = match source.source.as_ref()? {
            S::SecretRef(from) => ("secret", from),
            S::ConfigRef(from) => ("config", from),
        };
        Some(match (source.name.as_str(), from.key.as_str()) {
            (_, "") => format!("all of {kind}/{}", from.name),
            ("", key) => format!("{key} of {kind}/{}", from.name),
            (name, key) => format!("{name} of {kind}/{}:{key}", from.name),
        })
    };
    sources.iter().filter_map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Option<v1::DataStatus> {
        let keys = vec![v1::DataKey { name: "MODE".into(), size: 4, revision: 2 }];
        let update_time = Some(prost_types::Timestamp { seconds: 60, nanos: 5 });
        Some(v1::DataStatus { keys, update_time, updated_by: "ann".into() })
    }

    #[test]
    fn a_job_says_where_its_variables_are() {
        use v1::env_source::Source as S;
        let of = |name: &str, key: &str| v1::DataRef { name: name.into(), key: key.into() };
        let one = |name: &str, source| v1::EnvSource { name: name.into(), source: Some(source) };
        let env_from = vec![
            one("", S::SecretRef(of("s3", ""))),
            one("", S::SecretRef(of("s3", "KEY"))),
            one("MODE", S::ConfigRef(of("train", "mode"))),
        ];
        let command = v1::Command { env_from, ..Default::default() };
        let work = Some(v1::job_spec::Work::Command(command));
        let text = super::env_from(&v1::JobSpec { work, ..Default::default() });
        assert_eq!(text, "all of secret/s3, KEY of secret/s3, MODE of config/train:mode");
    }

    #[test]
    fn a_secret_is_told_without_its_values_and_a_config_with_them() {
        let metadata = Some(v1::Metadata { name: "s3".into(), generation: 2, ..Default::default() });
        let secret = v1::Secret { metadata: metadata.clone(), status: status(), ..Default::default() };
        let text = secrets(std::slice::from_ref(&secret)).render("");
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..6], ["s3", "1", "4", "2", "1970-01-01T00:01:00Z", "ann"], "{text}");
        assert!(secret_facts(&secret).1.render("").contains("MODE"));
        let data = [("MODE".to_owned(), "a\nb".to_owned())].into();
        let config = v1::Config { metadata, status: status(), data, ..Default::default() };
        assert!(configs(std::slice::from_ref(&config)).render("").contains("CONFIG"));
        assert!(config_facts(&config).1.render("").contains("a\\nb"));
        let unseen = v1::Secret { status: None, ..secret };
        assert!(secrets(&[unseen]).render("").lines().nth(1).unwrap().contains(" - "), "a viewer's");
    }
}
