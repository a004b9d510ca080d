//! What a job asks for by the options `--rail-*` of sbatch, srun and salloc (`deploy/slurm/spank_railyard.c`). Slurm hands them to prologs as variables,
//! which whoever submits a job can set by other ways, too: they are checked here, and by the controller.

use proto_manifest::{RailOption, RailOptions, Switches, WrongOption};

use crate::error::Error;

/// What Slurm puts before the names that the plugin gives (SPANK's job control environment, spank(7)).
const PREFIX: &str = "SPANK_RAIL_";

/// The plugin sets a switch that is on, and no other.
const SWITCHES: Switches = Switches { off: None, on: "1" };

/// The options that the variables say.
///
/// # Errors
/// [`Error::Usage`] names the option, and what it may be.
pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<RailOptions, Error> {
    let given = |option| variable(&format!("{PREFIX}{}", names(option).0));
    RailOptions::read(given, SWITCHES).map_err(|WrongOption { option, given, wanted }| {
        Error::Usage(format!("{} of the job is {given:?}: it is {wanted}", names(option).1))
    })
}

/// The end of the variable's name, and the option that sets it.
fn names(option: RailOption) -> (&'static str, &'static str) {
    match option {
        RailOption::Ranks => ("RANKS", "--rail-ranks"),
        RailOption::Count => ("COUNT", "--rail-count"),
        RailOption::Partial => ("PARTIAL", "--rail-partial"),
        RailOption::AvoidDrained => ("AVOID_DRAINED", "--rail-avoid-drained"),
        RailOption::Certify => ("CERTIFY", "--rail-certify"),
        RailOption::Checksum => ("CHECKSUM", "--rail-checksum"),
        RailOption::Protection => ("PROTECTION", "--rail-protection"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [RailOption; 7] = [
        RailOption::Ranks,
        RailOption::Count,
        RailOption::Partial,
        RailOption::AvoidDrained,
        RailOption::Certify,
        RailOption::Checksum,
        RailOption::Protection,
    ];

    fn read(pairs: &[(&str, &str)]) -> Result<RailOptions, Error> {
        of(|name| {
            let pair = pairs.iter().find(|pair| name.strip_prefix(PREFIX) == Some(pair.0));
            pair.map(|pair| pair.1.to_owned())
        })
    }

    /// The plugin is C, and says the same names once more.
    #[test]
    fn the_plugin_has_these_options() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/slurm/spank_railyard.c");
        let plugin = std::fs::read_to_string(path).unwrap();
        for option in ALL {
            let (variable, name) = names(option);
            let name = name.trim_start_matches("--");
            assert!(
                plugin.contains(&format!("\"{name}\"")) && plugin.contains(&format!("\"RAIL_{variable}\"")),
                "{name}, {variable}"
            );
        }
    }

    #[test]
    fn what_is_wrong_names_the_option_and_what_it_may_be() {
        assert_eq!(read(&[("RANKS", "8")]).unwrap().ranks, Some(8));
        for (name, value, says) in [
            ("RANKS", "0", "--rail-ranks of the job is \"0\": it is a number from 1 to 256"),
            ("PARTIAL", "yes", "--rail-partial of the job is \"yes\""),
            ("CERTIFY", "", "one of warn, require"),
        ] {
            let error = read(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
