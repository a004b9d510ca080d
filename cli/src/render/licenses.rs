//! Licenses.

use proto_wire::v1;

use super::Table;

/// A list of licenses.
#[must_use]
pub fn licenses(list: &[v1::License]) -> Table {
    let mut table = Table::new(["LICENSE", "TOTAL", "IN-USE", "FREE", "RUNNING", "WAITING", "DESCRIPTION"]);
    for license in list {
        let (spec, status) = (license.spec.clone().unwrap_or_default(), license.status.unwrap_or_default());
        let total = u64::from(spec.total.unwrap_or_default());
        table.row([
            license.metadata.clone().unwrap_or_default().name,
            total.to_string(),
            status.in_use.to_string(),
            total.saturating_sub(status.in_use).to_string(),
            status.jobs_running.to_string(),
            status.jobs_waiting.to_string(),
            spec.description,
        ]);
    }
    table
}

/// Facts about a license.
#[must_use]
pub fn license_facts(license: &v1::License) -> Vec<(&'static str, String)> {
    let (spec, status) = (license.spec.clone().unwrap_or_default(), license.status.unwrap_or_default());
    vec![
        ("Description", spec.description),
        ("Total", spec.total.unwrap_or_default().to_string()),
        ("In use", status.in_use.to_string()),
        ("Jobs", format!("{} running, {} waiting", status.jobs_running, status.jobs_waiting)),
    ]
}

/// What a job asks for: `matlab:2, scratch:40`.
#[must_use]
pub fn asked(spec: &v1::JobSpec) -> String {
    let mut asked: Vec<String> =
        spec.licenses.iter().map(|(name, count)| format!("{name}:{count}")).collect();
    asked.sort_unstable();
    asked.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_and_what_is_used_is_in_its_row() {
        let metadata = v1::Metadata { name: "matlab".into(), ..Default::default() };
        let license = v1::License {
            metadata: Some(metadata),
            spec: Some(v1::LicenseSpec { total: Some(4), description: "seats".into() }),
            status: Some(v1::LicenseStatus { in_use: 5, jobs_running: 2, jobs_waiting: 3 }),
            ..Default::default()
        };
        let text = licenses(std::slice::from_ref(&license)).render("");
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        // Fewer than are held, after the total was lowered.
        assert_eq!(row, ["matlab", "4", "5", "0", "2", "3", "seats"], "{text}");
        assert!(license_facts(&license).contains(&("Jobs", "2 running, 3 waiting".to_owned())));
        let spec =
            v1::JobSpec { licenses: [("b".to_owned(), 2), ("a".to_owned(), 1)].into(), ..Default::default() };
        assert_eq!(asked(&spec), "a:1, b:2");
    }
}
