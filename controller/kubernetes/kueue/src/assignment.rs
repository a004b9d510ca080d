//! Where Kueue's topology-aware scheduling puts pods: `topologyAssignment` of `v1beta2`, which writes common parts of names once. [pure]

use serde::Deserialize;

/// No workload has more domains (Kueue's own bound on one slice).
const DOMAINS: usize = 100_000;

/// The level whose values are names of nodes.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Pods over domains of the lowest level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TopologyAssignment {
    /// Labels of nodes, from the highest level to the lowest; no more than the last one where that is the node's own name.
    pub levels: Vec<String>,
    /// Domains, in rank order.
    pub slices: Vec<Slice>,
}

/// Some domains.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Slice {
    /// How many.
    pub domain_count: u32,
    /// One entry for each level.
    pub values_per_level: Vec<Values>,
    /// Pods in each domain.
    pub pod_counts: PodCounts,
}

/// Values of one level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Values {
    /// That of all domains.
    pub universal: Option<String>,
    /// Or one for each.
    pub individual: Option<Individual>,
}

/// Values with what they have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Individual {
    /// Before each.
    pub prefix: String,
    /// Behind each.
    pub suffix: String,
    /// In between.
    pub roots: Vec<String>,
}

/// Pods in domains.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodCounts {
    /// In each domain.
    pub universal: Option<u32>,
    /// Or one number for each.
    pub individual: Vec<u32>,
}

impl TopologyAssignment {
    /// Nodes with how many pods each gets, in rank order.
    ///
    /// # Errors
    /// Why it cannot be said: the lowest level is not the node, or lists are not as long as they should be.
    pub fn nodes(&self) -> Result<Vec<(String, u32)>, String> {
        if self.levels.last().is_none_or(|level| level != HOSTNAME) {
            let levels = self.levels.join(", ");
            return Err(format!("the topology of its flavor ends with {levels:?} and not with {HOSTNAME}"));
        }
        let mut all = Vec::new();
        for slice in &self.slices {
            slice.add(&mut all)?;
        }
        Ok(all)
    }
}

impl Slice {
    fn add(&self, all: &mut Vec<(String, u32)>) -> Result<(), String> {
        let odd = |what: &str| format!("its topologyAssignment has {what} for {} domains", self.domain_count);
        let count = usize::try_from(self.domain_count).unwrap_or(usize::MAX);
        if all.len().saturating_add(count) > DOMAINS {
            return Err(odd("more than 100000 values"));
        }
        let values = self.values_per_level.last().ok_or_else(|| odd("no values"))?;
        if let Some(individual) = &values.individual
            && individual.roots.len() != count
        {
            return Err(odd(&format!("{} values", individual.roots.len())));
        }
        if self.pod_counts.universal.is_none() && self.pod_counts.individual.len() != count {
            return Err(odd(&format!("{} counts of pods", self.pod_counts.individual.len())));
        }
        for at in 0..count {
            let name = match (&values.universal, &values.individual) {
                (Some(name), _) => name.clone(),
                (None, Some(all)) => {
                    format!("{}{}{}", all.prefix, all.roots.get(at).map_or("", String::as_str), all.suffix)
                }
                (None, None) => return Err(odd("no values")),
            };
            let pods = self.pod_counts.universal.or_else(|| self.pod_counts.individual.get(at).copied());
            all.push((name, pods.unwrap_or_default()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: serde_json::Value) -> TopologyAssignment {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn every_way_to_write_names_is_read() {
        let assignment = read(json!({"levels": [HOSTNAME], "slices": [
            {"domainCount": 2, "valuesPerLevel": [{"individual": {"prefix": "gpu-", "suffix": ".x", "roots": ["1", "2"]}}],
             "podCounts": {"universal": 1}},
            {"domainCount": 1, "valuesPerLevel": [{"universal": "other"}], "podCounts": {"individual": [3]}},
        ]}));
        let nodes = assignment.nodes().unwrap();
        let nodes: Vec<_> = nodes.iter().map(|(name, pods)| (name.as_str(), *pods)).collect();
        assert_eq!(nodes, [("gpu-1.x", 1), ("gpu-2.x", 1), ("other", 3)]);
    }

    #[test]
    fn what_names_no_nodes_is_said() {
        let rack = read(json!({"levels": ["railyard.io/pod"], "slices": []}));
        assert!(rack.nodes().unwrap_err().contains("railyard.io/pod"));
        let short = json!({"levels": [HOSTNAME], "slices": [{"domainCount": 2,
            "valuesPerLevel": [{"individual": {"roots": ["a"]}}], "podCounts": {"universal": 1}}]});
        assert!(read(short).nodes().unwrap_err().contains("1 values for 2 domains"));
        let counts = json!({"levels": [HOSTNAME], "slices": [{"domainCount": 2,
            "valuesPerLevel": [{"individual": {"roots": ["a", "b"]}}], "podCounts": {"individual": [1]}}]});
        assert!(read(counts).nodes().unwrap_err().contains("1 counts of pods"));
        let none = json!({"levels": [HOSTNAME], "slices": [{"domainCount": 1}]});
        assert!(read(none).nodes().unwrap_err().contains("no values"));
    }
}
